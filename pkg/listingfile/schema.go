package listingfile

import _ "embed"

// Schema is the JSON Schema (draft 2020-12) of a line of a file, the header included. It says all that can be said of a line by
// itself in that language: what Read takes, the schema takes. What Read refuses beside it is listed in its $comment.
//
//go:embed schema.json
var Schema []byte

// Example is a file with a header and one listing that uses every field.
//
//go:embed example.jsonl
var Example []byte
