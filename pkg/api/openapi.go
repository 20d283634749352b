package api

import _ "embed"

// OpenAPIYAML is the OpenAPI 3.1 description that the gateway serves.
//
//go:embed openapi.yaml
var OpenAPIYAML []byte
