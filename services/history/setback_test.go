package history_test

import (
	"bytes"
	"crypto/ed25519"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"filippo.io/torchwood"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/service"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/history"
)

// A witness that shows a checkpoint which the log has signed and lacks stops the service, until an
// operator decides.
func TestWitnessOfALossStopsTheService(t *testing.T) {
	signing(t, func(t *testing.T, s *instance, cfg history.Config, _ *servicetest.Clock) {
		origin := s.document().Origin
		s.Stop()
		log, err := cfg.Proof.Log(nil, cfg.PublicURL)
		require.NoError(t, err)
		shown, err := log.Keys.Sign(torchwood.Checkpoint{Origin: origin,
			Tree: tlog.Tree{N: 9, Hash: tlog.RecordHash([]byte("other"))}})
		require.NoError(t, err)
		witness := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				_, _ = io.WriteString(w, shown)
				return
			}
			w.Header().Set("Content-Type", "text/x.tlog.size")
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, "9\n")
		}))
		t.Cleanup(witness.Close)
		signer, err := torchwood.NewCosignatureSigner("witness.example",
			ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
		require.NoError(t, err)
		cfg.Proof.Witnesses = []string{signer.Verifier().String() + " " + witness.URL}

		s = run(t, cfg, s.catalog)
		s.record(line("a", "2026-11-10T00:00:00Z", api.FactualReview, api.OutcomeVerified))
		readiness := func() servicetest.Response { return s.Do(http.MethodGet, "/readyz", "") }
		storetest.Eventually(t, "the service stops", func() bool { return strings.Contains(readiness().Body, api.SetBackCondition) })
		s.Do(http.MethodGet, wellKnown, "").RequireError("service_unavailable")
		var out bytes.Buffer
		require.ErrorIs(t, history.Verify(t.Context(), cfg, nil, &out), history.ErrMismatch)
		require.Contains(t, out.String(), "a witness has seen a checkpoint of the log that these events do not match")

		out.Reset()
		require.NoError(t, history.Recover(t.Context(), cfg, service.Recovery{Operator: "ann"}, &out))
		require.Equal(t, "accepted that history lacks witness: a generation begins\n", out.String())
		storetest.Eventually(t, "the service goes on", func() bool { return readiness().Status == http.StatusOK })
		require.Regexp(t, `^/2-[0-9a-f]{16}$`, s.document().Origin[len(origin):])
	})
}
