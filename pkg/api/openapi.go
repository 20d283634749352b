package api

import _ "embed"

// OpenAPIYAML is the interface description, OpenAPI 3.1, as it is served to consumers.
//
//go:embed openapi.yaml
var OpenAPIYAML []byte
