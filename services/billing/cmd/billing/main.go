// Command billing sells plans through a payment processor and pushes what accounts have paid for to
// authquota.
package main

import (
	"opportunity.internal/pkg/service"
	"opportunity.internal/services/billing"
)

func main() { service.Command("billing", billing.Main) }
