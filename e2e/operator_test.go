package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

// TestRealPlatforms imports 592 real platforms as candidates, and checks that they stay private
// until published, and that an export has all of them unchanged.
func TestRealPlatforms(t *testing.T) {
	t.Parallel()
	const path = "../services/catalog/testdata/platforms.jsonl"
	u := upWith(t, filepath.Join(t.TempDir(), "data"), "none")
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.Count(string(file), "\n")
	keys := spend(u.deployment, api.Commercial)

	require.Contains(t, u.verb(t, "", "listings", "import", path), "created 592, updated 0, unchanged 0")
	require.Empty(t, ids(list(t, u.url, keys.next(t), listPath)))
	require.Equal(t, 404, get(t, u.url, keys.next(t), listPath+"/123rf").StatusCode)
	head, candidates, _ := strings.Cut(u.verb(t, "", "listings", "export"), "\n")
	require.JSONEq(t, `{"format":"opportunity-listings","version":1}`, head)
	require.Equal(t, lines, strings.Count(candidates, "\n"))
	require.Equal(t, sets(t, string(file)), sets(t, candidates))

	u.verb(t, "", "listings", "publish", "--all", "--yes")
	eventually(t, "all are listed", func() bool {
		return read[api.OpportunityList](t, u.url, keys.next(t), listPath).Pagination.Total == 592
	})
	all := list(t, u.url, keys.next(t), listPath+"?limit=100")
	require.Len(t, ids(all), 592)
	for _, o := range all {
		require.Equal(t, api.Unverified, o.Verification.Status)
		require.NotNil(t, o.PublishedAt)
	}
	require.Empty(t, list(t, u.url, u.keys[api.Free], listPath))
	table := u.verb(t, "", "listings", "export", "--format", "csv")
	require.Contains(t, u.verb(t, table, "listings", "import", "--format", "csv", "-"),
		"created 0, updated 0, unchanged 592")
	require.Contains(t, u.verb(t, "", "status", "--public-url", u.url, "--calls"),
		"free set: 0 of at most 10 records\npublished: 592, of them 592 never reviewed")

	u.verb(t, "", "listings", "withdraw", "123rf", "--reason", "test")
	eventually(t, "the withdrawn is gone", func() bool {
		return get(t, u.url, keys.next(t), listPath+"/123rf").StatusCode == http.StatusNotFound
	})
}

// TestOlderKeys checks that a key of another system works from the request after the import of its
// hash, until the request after its revocation.
func TestOlderKeys(t *testing.T) {
	t.Parallel()
	u := upWith(t, filepath.Join(t.TempDir(), "data"), "none", "OPPORTUNITY_OLDER_KEYS=jb-[0-9a-z-]{20,60}")
	const key = "jb-a-key-of-another-form-4711"
	hash := sha256.Sum256([]byte(key))
	line := `{"sha256":"` + hex.EncodeToString(hash[:]) +
		`","prefix":"jb-","lastFour":"4711","useCase":"before","tier":"developer","expiresAt":"` +
		time.Now().AddDate(0, 1, 0).UTC().Format(time.RFC3339) + `"}`
	ask := func() int { return get(t, u.url, key, listPath).StatusCode }
	require.Equal(t, http.StatusUnauthorized, ask())

	require.Contains(t, u.verb(t, line, "keys", "import", "-"), "created 1, unchanged 0")
	require.Contains(t, u.verb(t, line, "keys", "import", "-"), "created 0, unchanged 1")
	require.Equal(t, http.StatusOK, ask(), "at once, although it was unknown before")

	var id string
	for _, k := range verbJSON[api.KeyList](t, u.deployment, "keys", "list").Keys {
		if k.LastFour == "4711" {
			id = k.ID
		}
	}
	require.Contains(t, u.verb(t, "", "keys", "revoke", id, "--leaked"), "revoked: "+id)
	require.Equal(t, http.StatusUnauthorized, ask(), "applies to the next request")
}
