package listingfile

import _ "embed"

// Schema is the JSON Schema (draft 2020-12) of a line of a file, including the header. Every line
// that Read accepts is valid. Its $comment lists the reasons for which Read rejects a valid line.
//
//go:embed schema.json
var Schema []byte

// Example is a file with a header and one listing that uses every field.
//
//go:embed example.jsonl
var Example []byte
