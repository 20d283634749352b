package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUnsupportedDescriptionsAreErrors checks that a construct which no emitter supports does not
// become a wrong type.
func TestUnsupportedDescriptionsAreErrors(t *testing.T) {
	for name, schema := range map[string]string{
		"optional field":    "{type: object, properties: {a: {type: string}}}",
		"nested object":     "{type: object, required: [a], properties: {a: {type: object}}}",
		"union":             "{type: object, required: [a], properties: {a: {oneOf: [{type: string}, {type: integer}]}}}",
		"number of its own": "{type: number}",
	} {
		_, err := read([]byte("components: {schemas: {A: " + schema + "}}"))
		require.ErrorContains(t, err, "A: ", name)
	}
}

func TestNames(t *testing.T) {
	for json, want := range map[string]string{
		"applicationUrl": "ApplicationURL", "sourceUrls": "SourceURLs", "id": "ID", "audio-minute": "AudioMinute",
		"invalid_api_key": "InvalidAPIKey", "page_size": "PageSize",
	} {
		require.Equal(t, want, exported(json))
	}
	require.Equal(t, "degreeRequired", camel("degree_required"))
}
