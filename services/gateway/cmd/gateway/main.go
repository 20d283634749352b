// Command gateway serves the public API, its documentation, and operators.
package main

import (
	"opportunity.internal/pkg/service"
	"opportunity.internal/services/gateway"
)

func main() { service.Command("gateway", gateway.Main) }
