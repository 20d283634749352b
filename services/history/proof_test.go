package history_test

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/services/history"
)

var signingKey = strings.Repeat("01", 32)

const wellKnown = "/.well-known/opportunity-history"

// signing runs a test with a service with a signing key on each kind of database.
func signing(t *testing.T, test func(t *testing.T, s *instance, cfg history.Config, c *servicetest.Clock)) {
	schema.OnBothDatabases(t, func(t *testing.T, url string) {
		clock := servicetest.NewClock(now)
		catalog := newCatalog(t)
		cfg := config(url, catalog.URL)
		cfg.Proof.SigningKeys, cfg.Now = []string{signingKey}, clock.Now
		s := run(t, cfg, catalog)
		s.catalog.set("a", true)
		s.catalog.set("private", false)
		test(t, s, cfg, clock)
	})
}

func TestVerifyFailsOnMismatch(t *testing.T) {
	signing(t, func(t *testing.T, s *instance, cfg history.Config, _ *servicetest.Clock) {
		s.record(line("a", "2026-11-10T00:00:00Z", api.FactualReview, api.OutcomeVerified))
		s.awaitLog("1")
		text := s.text(logPath + "/checkpoint")
		s.Stop()
		var out bytes.Buffer
		require.NoError(t, history.Verify(t.Context(), cfg, nil, &out))
		require.Equal(t, "1 events of 1 listings; valid checkpoints: 1, the newest covers the first 1 events\neverything "+
			"matches\n", out.String())

		saved := filepath.Join(t.TempDir(), "saved.txt")
		require.NoError(t, os.WriteFile(saved, []byte(text), 0o600))
		out.Reset()
		require.NoError(t, history.Verify(t.Context(), cfg, []string{"--against", saved, "--output", "json"}, &out),
			out.String())
		require.JSONEq(t, `{"fits":true,"events":1,"listings":1,"checkpoints":1,"logged":1,"findings":[],"omitted":0}`,
			out.String())

		require.NoError(t, os.WriteFile(saved, []byte(strings.Replace(text, "\n1\n", "\n2\n", 1)), 0o600))
		out.Reset()
		require.ErrorIs(t, history.Verify(t.Context(), cfg, []string{"--against", saved}, &out), history.ErrMismatch)
		require.Contains(t, out.String(), "the signature is not valid")
		untrusted := cfg
		untrusted.Proof.SigningKeys = []string{strings.Repeat("02", 32)}
		out.Reset()
		require.ErrorIs(t, history.Verify(t.Context(), untrusted, []string{"--output=json"}, &out), history.ErrMismatch)
		require.Contains(t, out.String(), "no key of this history signed it")
		untrusted.Proof.SigningKeys = nil
		keyless := history.Verify(t.Context(), untrusted, nil, &out)
		require.ErrorContains(t, keyless, "OPPORTUNITY_HISTORY_PUBLIC_KEYS")
		require.NotErrorIs(t, keyless, history.ErrMismatch, "a missing setting must not look like tampering")
		for _, args := range [][]string{{"x"}, {"--output", "xml"}, {"--against"}, {"--against", saved + ".nowhere"}} {
			require.Error(t, history.Verify(t.Context(), cfg, args, &out))
		}
	})
}

func TestKnownAtPastTime(t *testing.T) {
	signing(t, func(t *testing.T, s *instance, _ history.Config, c *servicetest.Clock) {
		s.record(line("private", "2026-11-19T00:00:00Z", api.FactualReview, api.OutcomeVerified))
		c.Advance(48 * time.Hour)
		s.record(line("private", "2026-11-20T00:00:00Z", api.FactualReview, api.OutcomeNeedsReview))
		known := func(at string) api.HistorySnapshot {
			t.Helper()
			return servicetest.Read[api.HistorySnapshot](s.Do(http.MethodGet, "/operator/v1/history/private"+at, ""))
		}
		require.Empty(t, known("?at=2026-11-20T11:59:59Z").Events)
		then, today := known("?at=2026-11-20"), known("")
		require.Equal(t, api.Verified, then.Verification.Status)
		require.Equal(t, "2026-11-20T23:59:59.999999Z", then.At.Format(time.RFC3339Nano))
		require.Equal(t, api.NeedsReview, today.Verification.Status)
		require.Equal(t, today, known("?at=2026-11-22"), "the current day must end now")
		for _, at := range []string{"2026-11-23", "2026-11-22T12:00:01Z", "yesterday", ""} {
			s.Do(http.MethodGet, "/operator/v1/history/private?at="+at, "").RequireError("invalid_parameter")
		}
		s.Do(http.MethodGet, "/operator/v1/history/unlisted", "").RequireError("not_found")
	})
}

func TestProofsOfAMissingDatabaseCreateNothing(t *testing.T) {
	dir := t.TempDir()
	cfg := config("sqlite://"+filepath.Join(dir, "history.db"), "http://127.0.0.1:1")
	cfg.Proof.SigningKeys = []string{signingKey}
	require.ErrorContains(t, history.Verify(t.Context(), cfg, nil, io.Discard), "no database")
	require.ErrorContains(t, history.Prove(t.Context(), cfg, "x", io.Discard), "no database")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}
