package api

import (
	"bytes"
	"encoding/json"
)

// Encode returns v as JSON in the form of every response: without HTML escapes, because browsers do
// not render JSON as HTML, and without a final newline.
func Encode(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}
