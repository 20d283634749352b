package gateway

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
)

// Differences during a rotation of peppers do not matter.
func TestPeppersAreCompared(t *testing.T) {
	one, other := bytes.Repeat([]byte{7}, 32), bytes.Repeat([]byte{8}, 32)
	const rejectsAll, rejectsOlder = "the gateway rejects every key that authquota issues",
		"the gateway rejects keys that authquota issued under an older pepper"
	for name, c := range map[string]struct {
		ours, theirs [][]byte
		keysLost     bool
		text         string
	}{
		"the same":                     {[][]byte{one}, [][]byte{one}, false, ""},
		"new one at the end here":      {[][]byte{one, other}, [][]byte{one}, false, ""},
		"new one in front there":       {[][]byte{one, other}, [][]byte{other, one}, false, ""},
		"older one removed there":      {[][]byte{other, one}, [][]byte{other}, false, ""},
		"another one":                  {[][]byte{other}, [][]byte{one}, true, rejectsAll},
		"only the older one":           {[][]byte{one}, [][]byte{other, one}, true, rejectsAll},
		"older one missing":            {[][]byte{one}, [][]byte{one, other}, false, rejectsOlder},
		"new one at the end, not here": {[][]byte{other}, [][]byte{other, one}, false, rejectsOlder},
	} {
		var cfg Config
		for _, p := range c.ours {
			cfg.Peppers = append(cfg.Peppers, hex.EncodeToString(p))
		}
		fault, keysLost := cfg.compare(api.SharedSettings{Peppers: apikey.Fingerprints(c.theirs)})
		require.Equal(t, c.keysLost, keysLost, name)
		require.Contains(t, fault, c.text, name)
		require.Equal(t, c.text == "", fault == "", name)
	}
}
