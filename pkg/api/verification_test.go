package api_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

func TestFeedKeepsBytesOfSummaries(t *testing.T) {
	for _, summary := range []string{
		`{"slug":"a","sequence":7,"doubt":{"note":"\u003cb\u003e & \u2028"}}`,
		`{"slug":"a","sequence":7,"facts":null,"ofALaterRelease":[1.50,"<é>"]}`,
	} {
		var body bytes.Buffer
		encoder := json.NewEncoder(&body)
		encoder.SetEscapeHTML(false) // as package web does
		require.NoError(t, encoder.Encode([]api.EncodedSummary{{JSON: summary}}))
		var received []api.EncodedSummary
		require.NoError(t, json.Unmarshal(body.Bytes(), &received))
		require.Equal(t, []api.EncodedSummary{{Slug: "a", Sequence: 7, JSON: summary}}, received)
	}
	require.Error(t, json.Unmarshal([]byte(`[{"slug":1}]`), new([]api.EncodedSummary)))
}
