package api

import "time"

// Timeouts of the gateway. A service behind it must finish earlier to have its own response, error included, reach the client.
const (
	// GatewayTimeout limits how long the gateway waits for a service to start its response.
	GatewayTimeout = 10 * time.Second
	// OperatorTimeout limits how long the gateway waits for a service to carry out an operator request.
	OperatorTimeout = 5 * time.Minute
)
