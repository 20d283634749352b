// Command catalog runs the service that stores listings and serves them inside the cluster.
package main

import (
	"opportunity.internal/pkg/service"
	"opportunity.internal/services/catalog"
)

func main() { service.Command("catalog", catalog.Main) }
