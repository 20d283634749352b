package httpapi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

// appendMeta misses no field of api.Meta and escapes what needs escaping.
func TestMetaIsEncodedAsJSON(t *testing.T) {
	for _, at := range []time.Time{
		time.Date(2026, 11, 23, 5, 0, 0, 0, time.UTC),
		time.Date(2026, 11, 23, 5, 0, 0, 120_000_001, time.FixedZone("", 3600)),
	} {
		for _, tier := range []api.Tier{api.Free, api.Commercial, "\"\\\n\xff<é"} {
			meta := api.NewMeta(tier, at)
			want, err := api.Encode(map[string]api.Meta{"meta": meta})
			require.NoError(t, err)
			require.Equal(t, string(want), "{"+string(appendMeta(nil, meta)[len(","):]))
		}
	}
}

func TestEntityTagDependsOnEachPart(t *testing.T) {
	seen := map[string]bool{}
	for _, parts := range [][]string{nil, {""}, {"", ""}, {"a", "b"}, {"ab"}, {"a", "b", ""}, {"b", "a"}, {"a 1:b"},
		{"a", "1:b"}} {
		seen[etag(parts...)] = true
	}
	require.Len(t, seen, 9)
}
