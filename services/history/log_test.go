package history_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/torchwood"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/history"
)

const logPath = wellKnown + "/log"

// text returns the body of a path that needs no key.
func (s *instance) text(path string) string {
	s.t.Helper()
	r := s.Do(http.MethodGet, path, "", "Authorization", "")
	require.Equal(s.t, http.StatusOK, r.Status, r.Body)
	return r.Body
}

func (s *instance) awaitLog(events string) {
	s.t.Helper()
	storetest.Eventually(s.t, "the checkpoint of the log", func() bool {
		r := s.Do(http.MethodGet, logPath+"/checkpoint", "")
		return r.Status == http.StatusOK && strings.Split(r.Body, "\n")[1] == events
	})
}

// document is the document about the log.
type document struct {
	Origin, Checkpoint    string
	PublicKeys, Witnesses []string
}

func (s *instance) document() document {
	s.t.Helper()
	return servicetest.Read[document](s.Do(http.MethodGet, wellKnown, "", "Authorization", ""))
}

// newest returns the id of the newest event of a record.
func (s *instance) newest(record string) string {
	s.t.Helper()
	return servicetest.Read[api.HistorySnapshot](s.Do(http.MethodGet, "/operator/v1/history/"+record, "")).Events[0].ID
}

// Another implementation verifies the proof of an event that a consumer reads, without knowing
// anything but the public key.
func TestEventOfAResponseIsProved(t *testing.T) {
	signing(t, func(t *testing.T, s *instance, cfg history.Config, _ *servicetest.Clock) {
		s.Do(http.MethodGet, logPath+"/checkpoint", "").RequireError("not_found")
		s.record(line("a", "2026-11-10T00:00:00Z", api.FactualReview, api.OutcomeVerified),
			line("private", "2026-11-10T00:00:00Z", api.FactualReview, api.OutcomeVerified))
		s.awaitLog("2")
		log := s.document()
		require.Equal(t, servicetest.PublicURL+logPath+"/checkpoint", log.Checkpoint)
		require.Empty(t, log.Witnesses)
		require.Contains(t, s.Metrics(), "\nhistory_log_checkpoint_events 2\n")
		verifier, err := note.NewVerifier(log.PublicKeys[0])
		require.NoError(t, err)
		require.Equal(t, log.Origin, verifier.Name())

		var shown struct{ Data []json.RawMessage }
		require.NoError(t, json.Unmarshal([]byte(s.get("/api/v1/opportunities/a/history").Body), &shown))
		proof := s.text(logPath + "/proof/" + s.newest("a"))
		leaf, err := torchwood.ProofExtraData([]byte(proof))
		require.NoError(t, err)
		policy := torchwood.ThresholdPolicy(2, torchwood.OriginPolicy(log.Origin),
			torchwood.SingleVerifierPolicy(verifier))
		require.NoError(t, torchwood.VerifyProof(policy, tlog.RecordHash(leaf), []byte(proof)))
		forged := bytes.Replace(leaf, []byte("verified"), []byte("outdated"), 1)
		require.Error(t, torchwood.VerifyProof(policy, tlog.RecordHash(forged), []byte(proof)))
		var entry map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(leaf, &entry))
		require.Equal(t, []string{"event", "private", "recordedAt"}, slices.Sorted(maps.Keys(entry)))
		require.JSONEq(t, string(shown.Data[0]), string(entry["event"]))
		require.NotContains(t, string(leaf), `"ada"`)
		require.Equal(t, proof, s.text(logPath+"/proof/"+s.newest("a")+"?size=2"))

		for _, path := range []string{
			"/log/proof/" + s.newest("private"), "/log/proof/x", "/log/proof/" + s.newest("a") + "?size=1",
			"/log/tile/0/001", "/log/tile/0/000",
			"/log/tile/0/000.p/3", "/log/tile/1/000.p/1", "/log/tile/entries/000", "/log/tile/data/000",
			"/log/tile/63/000", "/log/tile/-1/000",
			"/log/tile/0/x999/x999/x999/999", "/log/tile/", "/log/", "/log/generations/2-ab/tile/0/000.p/2",
			"/log/generations/2-ab/checkpoint", "/1.heads", "/1", "/2026-11-20",
		} {
			require.Equal(t, http.StatusNotFound, s.Do(http.MethodGet, wellKnown+path, "").Status, path)
		}
		s.Do(http.MethodGet, logPath+"/proof/"+s.newest("a")+"?size=02", "").RequireError("invalid_parameter")
		require.Len(t, s.text(logPath+"/tile/0/000.p/2"), 64)
		require.Equal(t, s.text(logPath + "/tile/0/000.p/2")[:32], s.text(logPath+"/tile/0/000.p/1"))

		s.catalog.set("a", false)
		storetest.Eventually(t, "no proof of a withdrawn record", func() bool {
			return s.Do(http.MethodGet, logPath+"/proof/"+s.newest("a"), "").Status == http.StatusNotFound
		})
		withdrawn := s.newest("a")
		s.Stop()
		var out bytes.Buffer
		require.NoError(t, history.Prove(t.Context(), cfg, withdrawn, &out))
		require.Equal(t, proof, out.String())
		require.ErrorIs(t, history.Prove(t.Context(), cfg, "x", &out), history.ErrNotProved)
	})
}

// The tiles of a generation have a path of their own, because caches keep them for a year.
func TestAGenerationHasItsOwnTiles(t *testing.T) {
	signing(t, func(t *testing.T, s *instance, cfg history.Config, _ *servicetest.Clock) {
		s.record(line("a", "2026-11-10T00:00:00Z", api.FactualReview, api.OutcomeVerified))
		s.awaitLog("1")
		before := s.document()
		require.Equal(t, "public, max-age=31536000, immutable",
			s.get(logPath+"/tile/0/000.p/1").Header.Get("Cache-Control"))
		s.Stop()
		db := servicetest.OpenDatabase(t, s.Database)
		require.NoError(t, db.Exec("INSERT INTO generations (id, began_at, begun_by) VALUES ('0123456789abcdef', 2, 'ann')").
			Error)

		again := run(t, cfg, s.catalog)
		again.awaitLog("1")
		after := again.document()
		require.NotEqual(t, before.Origin, after.Origin)
		part := strings.TrimPrefix(after.Origin, before.Origin)
		require.Regexp(t, "^/2-[0-9a-f]{16}$", part)
		part = "/generations" + part
		require.Equal(t, servicetest.PublicURL+logPath+part+"/checkpoint", after.Checkpoint)
		require.Equal(t, again.text(logPath+"/checkpoint"), again.text(logPath+part+"/checkpoint"))
		again.Do(http.MethodGet, logPath+"/tile/0/000.p/1", "").RequireError("not_found")
		require.Len(t, again.text(logPath+part+"/tile/0/000.p/1"), 32)
	})
}

func TestEveryPublicRouteOfTheLogIsSmall(t *testing.T) {
	signing(t, func(t *testing.T, s *instance, _ history.Config, _ *servicetest.Clock) {
		large := func(sources int) string {
			urls := make([]string, sources)
			for i := range urls {
				urls[i] = fmt.Sprintf("https://a.example/%03d/%s", i, strings.Repeat("x", 2000))
			}
			text, err := json.Marshal(map[string]any{
				"slug": "a", "checkedAt": "2026-11-10T00:00:00Z", "checkType": api.LinkCheck,
				"outcome": api.OutcomeReachable, "sourceUrls": urls,
			})
			require.NoError(t, err)
			return string(text)
		}
		require.Contains(t, s.append(large(32)).Rejected[0].Problems[0].String(), "want at most 64000")
		lines := []string{large(31)}
		for i := range 300 {
			lines = append(lines, line("a", now.Add(-time.Duration(i)*time.Hour).Format(time.RFC3339), api.LinkCheck,
				api.OutcomeReachable))
		}
		s.record(lines...)
		s.awaitLog("301")
		all := servicetest.Read[api.HistorySnapshot](s.Do(http.MethodGet, "/operator/v1/history/a", "")).Events
		at := slices.IndexFunc(all, func(e api.RecordedEvent) bool { return len(e.SourceURLs) > 30 })
		sizes := map[string]int{}
		for _, path := range []string{"", "/log/checkpoint", "/log/tile/0/000", "/log/tile/1/000.p/1",
			"/log/proof/" + all[at].ID} {
			sizes[path] = len(s.text(wellKnown + path))
			require.LessOrEqual(t, sizes[path], 100_000, path)
		}
		require.Greater(t, sizes["/log/proof/"+all[at].ID], 80_000)
	})
}
