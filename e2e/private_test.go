package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

// TestNothingPrivateGetsOut checks that curators' notes, private records and keys appear in no
// response, header or log of the public side.
func TestNothingPrivateGetsOut(t *testing.T) {
	t.Parallel()
	u := up(t, filepath.Join(t.TempDir(), "data"), "OPPORTUNITY_LOG_LEVEL=DEBUG")
	secrets := []string{ // of the sample
		"curator-desk@", "Sample note for curators", "private-contact@", "Private sample candidate",
		"hidden-heron", "hiddenheron", "Hidden Heron", "quiet-quarry", "quietquarry", "Quiet Quarry",
	}
	export := u.verb(t, "", "listings", "export")
	for _, s := range secrets {
		require.Contains(t, export, s, "the operator's export has it, so the test searches for the right text")
	}
	key := u.issue(t, api.Commercial).Key
	var seen strings.Builder
	look := func(c call) {
		c.key = key
		a := do(t, u.url, c)
		fmt.Fprintln(&seen, a.StatusCode, string(a.body))
		require.NoError(t, a.Header.Write(&seen))
	}
	for _, o := range list(t, u.url, key, listPath+"?limit=100") {
		look(call{path: listPath + "/" + o.ID})
		look(call{path: listPath + "/" + o.ID + "/history?limit=100"})
	}
	for _, path := range []string{
		listPath + "?limit=100", changesPath + "?limit=100", "/api/jobs?limit=100",
		listPath + "?verified=false", listPath + "?limit=x",
		"/openapi.yaml", "/openapi.json", "/docs", "/docs/errors", "/",
	} {
		look(call{path: path})
	}
	for _, id := range []string{"hidden-heron", "quiet-quarry"} { // requests by id return 404
		for _, path := range []string{listPath + "/" + id, listPath + "/" + id + "/history"} {
			a := get(t, u.url, key, path)
			unknown := get(t, u.url, key, strings.Replace(path, id, "no-such-record", 1))
			require.Equal(t, 404, a.StatusCode)
			require.Equal(t, string(unknown.body), string(a.body))
		}
	}
	// keys in the wrong place
	get(t, u.url, key, listPath+"?api_key="+key)
	get(t, u.url, key, listPath+"/"+key)
	get(t, u.url, key, "/"+key)

	for _, s := range secrets {
		require.NotContains(t, seen.String(), s)
	}
	log := text(t, filepath.Join(u.dir, "log.jsonl"))
	require.Contains(t, log, `"route":"/api/v1/opportunities/{id}"`)
	for _, secret := range append(secrets, key, strings.Split(key, "_")[2], u.keys[api.Free]) {
		require.NotContains(t, log, secret)
		if secret != u.keys[api.Free] { // printed for its owner
			require.NotContains(t, u.out.String(), secret)
		}
	}
}
