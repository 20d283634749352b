// Package api defines the API contract: the OpenAPI description in openapi.yaml, and the Go types
// of all request and response bodies, both public and between services. It has no behavior beyond
// validation and values derived from these types.
package api

import _ "embed"

// OpenAPIYAML is the OpenAPI 3.1 description that the gateway serves.
//
//go:embed openapi.yaml
var OpenAPIYAML []byte
