// Package api is the contract: the interface description in openapi.yaml and the Go types of what consumers receive and of
// what the services tell each other. It holds no behaviour beyond what the meaning of a type requires.
package api
