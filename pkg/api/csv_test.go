package api_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
)

// The SDKs have the same rule and read the same examples.
func TestEscapeFormulas(t *testing.T) {
	text, err := os.ReadFile("../../sdk/conformance/fixtures/formulas.json")
	require.NoError(t, err)
	var cases []struct{ Text, Cell string }
	require.NoError(t, json.Unmarshal(text, &cases))
	cases = append(cases, []struct{ Text, Cell string }{ // the SDKs replace line breaks and tabs by spaces first
		{"\t1", "'\t1"}, {"\n1", "'\n1"}, {"\r1", "'\r1"}, {" \t1", "' \t1"}, {"\n=1", "'\n=1"}, {"a\n=1", "a\n=1"},
		{"'\n1", "''\n1"},
	}...)
	for _, c := range cases {
		require.Equal(t, c.Cell, api.EscapeFormulas(c.Text), "%q", c.Text)
		require.Equal(t, c.Text, api.UnescapeFormulas(c.Cell), "%q", c.Cell)
	}
}

func TestUnescapeFormulasReversesEscapeFormulas(t *testing.T) {
	part := rapid.OneOf(rapid.SampledFrom([]string{"=", "＝", "-", "'", "''", ";", " ", "\t", "\n", "\r", "\u200b",
		"\u3164", "a"}), rapid.StringN(0, 2, -1))
	rapid.Check(t, func(t *rapid.T) {
		cell := ""
		for _, p := range rapid.SliceOf(part).Draw(t, "parts") {
			cell += p
		}
		require.Equal(t, cell, api.UnescapeFormulas(api.EscapeFormulas(cell)))
	})
}
