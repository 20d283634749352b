// Command history runs the history service, which stores and serves verification events.
package main

import (
	"opportunity.internal/pkg/service"
	"opportunity.internal/services/history"
)

func main() { service.Command("history", history.Main) }
