// Command authquota serves accounts, API keys and usage inside the cluster.
package main

import (
	"opportunity.internal/pkg/service"
	"opportunity.internal/services/authquota"
)

func main() { service.Command("authquota", authquota.Main) }
