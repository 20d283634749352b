package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/jsonlines"
	"opportunity.internal/pkg/storetest"
)

// TestRefusedFiles checks that a file with invalid lines changes nothing, and that the report names
// each of them.
func TestRefusedFiles(t *testing.T) {
	t.Parallel()
	u := upWith(t, filepath.Join(t.TempDir(), "data"), "none")
	const good = `{"id":"good-one","company":{"name":"Good","website":"https://good.example/"},` +
		`"applicationUrl":"https://good.example/a","category":"online","summary":"s","visibility":"published",` +
		`"sources":[{"url":"https://good.example/"}]}`
	listings := strings.Join([]string{
		good,
		strings.Replace(strings.Replace(good, "good-one", "bad-two", 1), "https://good.example/", "ftp://good.example/", 1),
		"",
		strings.Replace(strings.Replace(good, "good-one", "bad-four", 1), `"online"`, `"offline"`, 1),
		`{"id":"bad-five"`,
		strings.Replace(strings.Replace(good, "good-one", "bad-six", 1), `"summary"`, `"summery"`, 1),
	}, "\n")
	out, errs, code := u.tryVerb(t, listings, "listings", "import", "-")
	require.Equal(t, 1, code)
	require.Empty(t, out)
	for _, line := range []string{
		"line 2 (id bad-two): company.website: ", "line 4 (id bad-four): category: ", "line 5: must be one JSON object: ",
		"line 6 (id bad-six): summery: ",
	} {
		require.Contains(t, errs, line)
	}
	require.NotContains(t, errs, "line 1")
	require.JSONEq(t, `{"format":"opportunity-listings","version":1}`, u.verb(t, "", "listings", "export"),
		"a header and no listing")

	require.Equal(t, "Imported the sample records.\n", u.verb(t, "", "sample"))
	require.Equal(t, "The deployment already has listings: nothing was changed.\n", u.verb(t, "", "sample"))
	demo := filepath.Join(t.TempDir(), "demo-keys.json")
	for range 2 {
		require.Equal(t, "The deployment already has listings: nothing was changed.\n",
			u.verb(t, "", "sample", "--demo-keys", demo))
		text, err := os.ReadFile(demo)
		require.NoError(t, err)
		var keys map[api.Tier]string
		require.NoError(t, json.Unmarshal(text, &keys))
		require.Len(t, keys, len(api.Tiers))
	}
	var issued api.KeyList
	require.NoError(t, json.Unmarshal([]byte(u.verb(t, "", "keys", "list", "--output", "json")), &issued))
	require.Len(t, issued.Keys, 2*len(api.Tiers), "those of up, and those of the first call")
	eventually(t, "the sample shows",
		func() bool { return len(list(t, u.url, u.keys[api.Commercial], "/api/v1/opportunities")) > 60 })

	report, errs, code := u.tryVerb(t, listings, "listings", "import", "-", "--output", "json")
	require.Equal(t, 1, code, errs)
	refused, err := strict[api.ImportReport]([]byte(report))
	require.NoError(t, err)
	require.False(t, refused.Applied)
	require.Len(t, refused.Rejected, 4)

	u.verb(t, good, "listings", "import", "-")
	event := func(id, outcome string) string {
		return `{"slug":"` + id + `","checkedAt":"2026-01-02T03:04:05Z","checkType":"review","outcome":"` + outcome +
			`","sourceUrls":["https://good.example/"],"note":"n","facts":` + apitest.WholeFacts(`{"remote":true}`) + `}`
	}
	events := event("good-one", "verified") + "\n" + event("good-one", "reachable") + "\n" + event("No Slug", "verified")
	_, errs, code = u.tryVerb(t, events, "events", "append", "-")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "line 2 (id good-one): outcome: ")
	require.Contains(t, errs, "line 3")
	require.Contains(t, u.verb(t, event("good-one", "verified"), "events", "append", "-"), "appended 1, duplicates 0")
	require.Contains(t, u.verb(t, event("good-one", "verified"), "events", "append", "-"), "appended 0, duplicates 1")

	var large strings.Builder // more than api.MaxFile, which does not limit listings
	for i := range 65 {
		line := strings.Replace(good, "good-one", fmt.Sprintf("large-%d", i), 1)
		large.WriteString(line + strings.Repeat(" ", jsonlines.MaxLine-len(line)-1) + "\n")
	}
	require.Greater(t, large.Len(), api.MaxFile)
	require.Contains(t, u.verb(t, large.String(), "listings", "import", "--yes", "-"),
		"created 65, updated 0, unchanged 0")
}

// TestRealPlatforms imports 592 real platforms as candidates, and checks that they stay private
// until published and export unchanged.
func TestRealPlatforms(t *testing.T) {
	t.Parallel()
	const path = "../services/catalog/testdata/platforms.jsonl"
	u := upWith(t, filepath.Join(t.TempDir(), "data"), "none")
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.Count(string(file), "\n")
	keys := spend(u.deployment, api.Commercial)

	require.Contains(t, u.verb(t, "", "listings", "import", path), "created 592, updated 0, unchanged 0")
	require.Empty(t, ids(list(t, u.url, keys.next(t), "/api/v1/opportunities")))
	require.Equal(t, 404, do(t, u.url, call{path: "/api/v1/opportunities/123rf", key: keys.next(t)}).StatusCode)
	require.Contains(t, u.verb(t, "", "listings", "import", path), "created 0, updated 0, unchanged 592")
	head, candidates, _ := strings.Cut(u.verb(t, "", "listings", "export"), "\n")
	require.JSONEq(t, `{"format":"opportunity-listings","version":1}`, head)
	require.Equal(t, lines, strings.Count(candidates, "\n"))
	require.Equal(t, sets(t, string(file)), sets(t, candidates))

	u.verb(t, "", "listings", "publish", "--all", "--yes")
	eventually(t, "all are listed", func() bool {
		return decode[api.OpportunityList](t,
			do(t, u.url, call{path: "/api/v1/opportunities", key: keys.next(t)})).Pagination.Total == 592
	})
	all := list(t, u.url, keys.next(t), "/api/v1/opportunities?limit=100")
	require.Len(t, ids(all), 592)
	for _, o := range all {
		require.Equal(t, api.Unverified, o.Verification.Status)
		require.NotNil(t, o.PublishedAt)
	}
	require.Empty(t, list(t, u.url, u.keys[api.Free], "/api/v1/opportunities"))
	exported := u.verb(t, "", "listings", "export")
	_, published, _ := strings.Cut(exported, "\n")
	require.Equal(t, sets(t, string(file), "publishedAt", "visibility"), sets(t, published, "publishedAt", "visibility"))
	require.Contains(t, u.verb(t, "", "listings", "lint", path), "592 listings, no problems")
	require.Contains(t, u.verb(t, exported, "listings", "import", "--dry-run", "-"),
		"would create 0, update 0, leave 592 unchanged")
	require.Contains(t, u.verb(t, exported, "listings", "import", "-"), "created 0, updated 0, unchanged 592")
	table := u.verb(t, "", "listings", "export", "--format", "csv")
	require.Contains(t, u.verb(t, table, "listings", "import", "--format", "csv", "-"),
		"created 0, updated 0, unchanged 592")
	require.Contains(t, u.verb(t, "", "status", "--public-url", u.url, "--calls"),
		"free set: 0 of at most 10 records\npublished: 592, of them 592 never reviewed")
	require.Contains(t, u.verb(t, "", "listings", "list", "--search", "123RF"),
		"123rf  123RF    sell      published   unverified  never")
	require.Contains(t, u.verb(t, "", "listings", "show", "123rf", "--output", "json"), `"action":"published"`)

	u.verb(t, "", "listings", "withdraw", "123rf", "--reason", "test")
	eventually(t, "the withdrawn is gone", func() bool {
		return do(t, u.url, call{path: "/api/v1/opportunities/123rf", key: keys.next(t)}).StatusCode == http.StatusNotFound
	})
}

// TestOlderKeys checks that keys from another system work after an import of their hashes, and that
// an import is all or nothing.
func TestOlderKeys(t *testing.T) {
	t.Parallel()
	u := upWith(t, filepath.Join(t.TempDir(), "data"), "none", "OPPORTUNITY_OLDER_KEYS=jb-[0-9a-z-]{20,60}")
	const key = "jb-a-key-of-another-form-4711"
	hash := sha256.Sum256([]byte(key))
	line := `{"sha256":"` + hex.EncodeToString(hash[:]) +
		`","prefix":"jb-","lastFour":"4711","useCase":"before","tier":"developer","expiresAt":"` +
		time.Now().AddDate(0, 1, 0).UTC().Format(time.RFC3339) + `"}`
	ask := func() int { return do(t, u.url, call{path: "/api/v1/opportunities", key: key}).StatusCode }
	require.Equal(t, http.StatusUnauthorized, ask())

	out, errs, code := u.tryVerb(t, line+"\n"+strings.Replace(line, "developer", "gold", 1), "keys", "import", "-")
	require.Equal(t, 1, code)
	require.Empty(t, out)
	require.Contains(t, errs, "line 2: tier: must be one of free, developer, commercial")
	require.Contains(t, errs, "line 2: sha256: is on line 1 already")
	require.Contains(t, u.verb(t, line, "keys", "import", "-"), "created 1, unchanged 0")
	report, err := strict[api.ImportReport]([]byte(u.verb(t, line, "keys", "import", "-", "--output", "json")))
	require.NoError(t, err)
	require.Equal(t, api.ImportReport{Applied: true, Unchanged: 1, Rejected: []api.RejectedLine{}}, report)
	require.Equal(t, http.StatusOK, ask(), "at once, although it was unknown before")

	list, err := strict[api.KeyRequestList]([]byte(u.verb(t, "", "keys", "requests", "--all", "--output", "json")))
	require.NoError(t, err)
	require.Empty(t, list.Requests)
	_, errs, code = u.tryVerb(t, "", "keys", "approve", "req_0199a1c27b3f7d0e9c1b52f6d1f0a4e2")
	require.Equal(t, 1, code)
	require.Contains(t, errs, `unknown request "req_0199a1c27b3f7d0e9c1b52f6d1f0a4e2"`)

	var id string
	keys, err := strict[api.KeyList]([]byte(u.verb(t, "", "keys", "list", "--output", "json")))
	require.NoError(t, err)
	for _, k := range keys.Keys {
		if k.LastFour == "4711" {
			id = k.ID
		}
	}
	require.Contains(t, u.verb(t, "", "keys", "revoke", id, "--leaked"), "revoked: "+id)
	require.Equal(t, http.StatusUnauthorized, ask(), "applies to the next request")
}

// TestUsage checks that exit codes separate usage errors from rejected requests, and that help
// needs no service.
func TestUsage(t *testing.T) {
	t.Parallel()
	nowhere := "OPPORTUNITY_ADMIN_URL=http://" + storetest.FreeAddress(t)
	settings := []string{nowhere, "OPPORTUNITY_OPERATOR_TOKEN=" + operatorToken}
	for _, c := range []struct {
		args string
		code int
	}{
		{"--help", 0}, {"up --help", 0}, {"listings import --help", 0}, {"keys issue --help", 0},
		{"accounts grant --help", 0},
		{"nonsense", 2}, {"listings", 2}, {"listings nonsense", 2}, {"listings import", 2}, {"listings import a b", 2},
		{"listings publish", 2}, {"listings publish x --all", 2}, {"keys issue --tier free", 2},
		{"keys issue --tier gold --use-case x", 2},
		{"keys issue --tier free --use-case x --expires-in -1h", 2}, {"keys revoke", 2}, {"accounts grant x gold", 2},
		{"keys approve", 2}, {"keys decline x", 2}, {"keys import", 2}, {"keys requests x", 2},
		{"keys import /no/such/file", 1},
		{"accounts list --output xml", 2}, {"accounts list --nonsense", 2},
		{"accounts list", 1}, {"listings import /no/such/file", 1},
	} {
		out, errs, code := run(t, settings, "", program(t, "opportunity"), strings.Fields(c.args)...)
		require.Equal(t, c.code, code, "%s: %s", c.args, errs)
		require.NotContains(t, out+errs, operatorToken)
		if c.code == 0 {
			require.NotEmpty(t, out)
		} else {
			require.NotEmpty(t, errs)
		}
	}
	_, errs, code := run(t, []string{nowhere, "OPPORTUNITY_DATA_DIR=" + t.TempDir()}, "", program(t, "opportunity"),
		"accounts", "list")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "OPPORTUNITY_OPERATOR_TOKEN")
}
