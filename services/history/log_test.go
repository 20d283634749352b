package history_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

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
func (s *service) text(path string) string {
	s.t.Helper()
	r := s.Do(http.MethodGet, path, "", "Authorization", "")
	require.Equal(s.t, http.StatusOK, r.Status, r.Body)
	return r.Body
}

func (s *service) awaitLog(events string) {
	s.t.Helper()
	storetest.Eventually(s.t, "the checkpoint of the log", func() bool {
		r := s.Do(http.MethodGet, logPath+"/checkpoint", "")
		return r.Status == http.StatusOK && strings.Split(r.Body, "\n")[1] == events
	})
}

// Another implementation verifies the proof of an event that a consumer reads, without knowing anything but the public key.
func TestEventOfAResponseIsProved(t *testing.T) {
	signing(t, func(t *testing.T, s *service, cfg history.Config, _ *servicetest.Clock) {
		s.Do(http.MethodGet, logPath+"/checkpoint", "").RequireError("not_found")
		s.record(line("a", "2026-11-10T00:00:00Z", api.Review, api.OutcomeVerified), line("private", "2026-11-10T00:00:00Z", api.Review, api.OutcomeVerified))
		s.awaitLog("2")
		storetest.Eventually(t, "the daily checkpoint", func() bool { return s.Do(http.MethodGet, wellKnown, "").Status == http.StatusOK })
		keys := s.published(wellKnown).Log
		require.Equal(t, servicetest.PublicURL+logPath+"/checkpoint", keys.Checkpoint)
		verifier, err := note.NewVerifier(keys.PublicKeys[0])
		require.NoError(t, err)
		require.Equal(t, keys.Origin, verifier.Name())

		id := func(record string) string {
			events := servicetest.Read[api.HistorySnapshot](s.Do(http.MethodGet, "/operator/v1/history/"+record, "")).Events
			return events[0].ID
		}
		var shown struct{ Data []map[string]any }
		require.NoError(t, json.Unmarshal([]byte(s.get("/api/v1/opportunities/a/history").Body), &shown))
		proof := s.text(logPath + "/proof/" + id("a"))
		extra, err := torchwood.ProofExtraData([]byte(proof))
		require.NoError(t, err)
		var opening map[string]any
		require.NoError(t, json.Unmarshal(extra, &opening))
		entry := map[string]any{"event": shown.Data[0], "private": opening["private"], "recordedAt": opening["recordedAt"]}
		var canonical bytes.Buffer // no text of this event needs more than sorted keys
		enc := json.NewEncoder(&canonical)
		enc.SetEscapeHTML(false)
		require.NoError(t, enc.Encode(entry))
		policy := torchwood.ThresholdPolicy(2, torchwood.OriginPolicy(keys.Origin), torchwood.SingleVerifierPolicy(verifier))
		leaf := tlog.RecordHash(bytes.TrimSuffix(canonical.Bytes(), []byte("\n")))
		require.NoError(t, torchwood.VerifyProof(policy, leaf, []byte(proof)))
		require.Equal(t, proof, s.text(logPath+"/proof/"+id("a")+"?size=2"))

		for _, path := range []string{
			"/proof/" + id("private"), "/proof/x", "/proof/" + id("a") + "?size=1", "/tile/0/001", "/tile/0/000", "/tile/0/000.p/3", "/tile/1/000.p/1",
			"/tile/entries/000", "/tile/data/000", "/tile/63/000", "/tile/-1/000", "/tile/0/x999/x999/x999/999", "/tile/", "/",
		} {
			s.Do(http.MethodGet, logPath+path, "").RequireError("not_found")
		}
		s.Do(http.MethodGet, logPath+"/proof/"+id("a")+"?size=02", "").RequireError("invalid_parameter")
		require.Len(t, s.text(logPath+"/tile/0/000.p/2"), 64)
		require.Equal(t, s.text(logPath + "/tile/0/000.p/2")[:32], s.text(logPath+"/tile/0/000.p/1"))
		require.Equal(t, []string{"private", "recordedAt"}, slices.Sorted(maps.Keys(opening)))

		s.catalog.set("a", false)
		storetest.Eventually(t, "no proof of a withdrawn record", func() bool {
			return s.Do(http.MethodGet, logPath+"/proof/"+id("a"), "").Status == http.StatusNotFound
		})
		withdrawn := id("a")
		s.Stop()
		var out bytes.Buffer
		require.NoError(t, history.Prove(t.Context(), cfg, withdrawn, &out))
		var bundle api.ProvedEvent
		require.NoError(t, json.Unmarshal(out.Bytes(), &bundle))
		require.Equal(t, proof, bundle.Proof)
		require.ErrorIs(t, history.Prove(t.Context(), cfg, "x", &out), history.ErrNotProved)
	})
}
