package history_test

import (
	"bytes"
	"encoding/json"
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
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/history"
	"opportunity.internal/services/history/internal/checkpoint"
)

var signingKey = strings.Repeat("01", 32)

const wellKnown = "/.well-known/opportunity-history"

// signing runs a test with a service with a signing key on each kind of database.
func signing(t *testing.T, test func(t *testing.T, s *service, cfg history.Config, c *servicetest.Clock)) {
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

func (s *service) published(path string) checkpoint.Document {
	s.t.Helper()
	return servicetest.Read[checkpoint.Document](s.Do(http.MethodGet, path, "", "Authorization", ""))
}

func TestDailyCheckpointsArePublished(t *testing.T) {
	signing(t, func(t *testing.T, s *service, cfg history.Config, c *servicetest.Clock) {
		s.Do(http.MethodGet, wellKnown, "").RequireError("not_found")
		s.record(line("a", "2026-11-10T00:00:00Z", api.Review, api.OutcomeVerified), line("private", "2026-11-10T00:00:00Z", api.Review, api.OutcomeVerified))
		day := func(path string, number int64) checkpoint.Document {
			t.Helper()
			storetest.Eventually(t, "the daily checkpoint", func() bool {
				return s.Do(http.MethodGet, path, "").Status == 200
			})
			d := s.published(path)
			require.Equal(t, number, d.Number)
			return d
		}
		first := day(wellKnown+"/2026-11-20", 1)
		require.Equal(t, "public, max-age=300", s.get(wellKnown+"/2026-11-20").Header.Get("Cache-Control"))

		c.Advance(50 * time.Hour) // no checkpoint on the 21st
		s.record(line("a", "2026-11-11T00:00:00Z", api.LinkCheck, api.OutcomeReachable))
		second := day(wellKnown+"/2026-11-22", 2)
		require.Equal(t, second, s.published(wellKnown))
		require.Equal(t, second, s.published(wellKnown+"/2"))
		require.Equal(t, "public, max-age=86400", s.get(wellKnown+"/2026-11-20").Header.Get("Cache-Control"))
		require.Equal(t, servicetest.PublicURL+wellKnown+"/1", *second.Previous)
		require.Nil(t, first.Previous)

		// An auditor needs only the public key.
		keys, err := checkpoint.ParseKeys(nil, second.PublicKeys)
		require.NoError(t, err)
		one, err := keys.Open(first.Checkpoint)
		require.NoError(t, err)
		two, err := keys.Open(second.Checkpoint)
		require.NoError(t, err)
		require.NoError(t, two.Extends(one, second.Consistency))
		require.Equal(t, checkpoint.ID(first.Checkpoint), two.Previous)
		require.EqualValues(t, 2, one.Size)
		require.EqualValues(t, 2, two.Chains)

		heads := s.Do(http.MethodGet, wellKnown+"/2026-11-20.heads", "", "Authorization", "")
		require.Equal(t, one.Heads, checkpoint.ID(heads.Body), "the heads hash must be the SHA-256 of the lines")
		require.Equal(t, 2, strings.Count(heads.Body, "\n"))
		for _, path := range []string{"", "/1", "/1.heads"} {
			require.NotContains(t, s.get(wellKnown+path).Body, "private", "no listing may be named")
			require.Equal(t, 200, s.Do(http.MethodHead, wellKnown+path, "").Status)
		}
		for _, path := range []string{"/0", "/3", "/x", "/2026-11-21", "/2026-02-30", "/01", "/1.head", "/" + strings.Repeat("9", 30)} {
			s.Do(http.MethodGet, wellKnown+path, "").RequireError("not_found")
		}
		text := s.Metrics()
		for _, sample := range []string{
			"history_checkpoint_timestamp_seconds 1.7", "history_checkpoint_events 3\n", "history_checkpoint_failures_total 0\n",
		} {
			require.Contains(t, text, sample)
		}
		// A restart makes no second checkpoint of the day.
		s.Stop()
		var out bytes.Buffer
		require.NoError(t, history.Verify(t.Context(), cfg, nil, &out))
		require.Contains(t, out.String(), "3 events of 2 listings; valid checkpoints: 2, the newest covers the first 3 events\neverything matches\n")
	})
}

func TestVerifyFailsOnMismatch(t *testing.T) {
	signing(t, func(t *testing.T, s *service, cfg history.Config, _ *servicetest.Clock) {
		var out bytes.Buffer
		require.ErrorContains(t, history.SignNow(t.Context(), cfg, &out), "nothing to sign")
		s.record(line("a", "2026-11-10T00:00:00Z", api.Review, api.OutcomeVerified))
		db := servicetest.OpenDatabase(t, cfg.Database.URL)
		storetest.Eventually(t, "the catalog has seen the event", func() bool {
			var covered int
			return db.Raw("SELECT covered FROM generations").Scan(&covered).Error == nil && covered == 1
		})
		s.Stop()
		require.NoError(t, history.SignNow(t.Context(), cfg, &out))
		require.Regexp(t, `^opportunity-history\n1\n[^\n]{44}\nnumber \d\ntime 2026-11-20T12:00:00Z\nchains 1\nheads [0-9a-f]{64}\nprevious [^\n]+\n\n— opportunity-history [^\n]+\n$`, out.String())

		saved := filepath.Join(t.TempDir(), "saved.txt")
		require.NoError(t, os.WriteFile(saved, out.Bytes(), 0o600))
		document, err := json.Marshal(checkpoint.Document{Checkpoint: out.String()})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(saved+".json", document, 0o600))
		out.Reset()
		require.NoError(t, history.Verify(t.Context(), cfg, []string{"--against", saved, "--against", saved + ".json", "--output", "json"}, &out), out.String())
		require.Contains(t, out.String(), `"fits":true`)

		forged := strings.Replace(string(document), `\nnumber `, `\nnumber 9`, 1)
		require.NoError(t, os.WriteFile(saved, []byte(forged), 0o600))
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

// To rotate a key, put the new seed first. After the old seed is destroyed its public key stays configured.
func TestCheckpointsOfRetiredKeysStayValid(t *testing.T) {
	signing(t, func(t *testing.T, s *service, cfg history.Config, c *servicetest.Clock) {
		s.record(line("a", "2026-11-10T00:00:00Z", api.Review, api.OutcomeVerified))
		storetest.Eventually(t, "the daily checkpoint", func() bool { return s.Do(http.MethodGet, wellKnown, "").Status == 200 })
		old := s.published(wellKnown).PublicKeys
		require.Len(t, old, 1)
		s.Stop()
		c.Advance(24 * time.Hour)
		cfg.Proof.SigningKeys = []string{strings.Repeat("02", 32)}
		withoutOldKey := run(t, cfg, s.catalog)
		storetest.Eventually(t, "no checkpoint follows one with an untrusted signature", func() bool {
			return strings.Contains(withoutOldKey.Metrics(), "history_checkpoint_failures_total 1\n")
		})
		require.Contains(t, withoutOldKey.Metrics(), "history_checkpoint_events 1\n")
		withoutOldKey.Stop()
		cfg.Proof.PublicKeys = old
		again := run(t, cfg, s.catalog)
		storetest.Eventually(t, "the checkpoint of the next day", func() bool { return again.Do(http.MethodGet, wellKnown+"/2026-11-21", "").Status == 200 })
		require.Len(t, again.published(wellKnown+"/1").PublicKeys, 2)
		all := again.published(wellKnown).PublicKeys
		again.Stop()
		var out bytes.Buffer
		require.NoError(t, history.Verify(t.Context(), cfg, nil, &out), out.String())
		cfg.Proof.SigningKeys, cfg.Proof.PublicKeys = nil, all
		require.NoError(t, history.Verify(t.Context(), cfg, nil, &out), "verification must need no secret")
	})
}

func TestReplicasMakeOneDailyCheckpoint(t *testing.T) {
	clock := servicetest.NewClock(now)
	catalog := newCatalog(t)
	cfg := config(schema.Postgres(t), catalog.URL)
	cfg.Proof.SigningKeys, cfg.Now = []string{signingKey}, clock.Now
	catalog.set("a", true)
	var replicas []*service
	for range 3 {
		replicas = append(replicas, run(t, cfg, catalog))
	}
	replicas[0].record(line("a", "2026-11-10T00:00:00Z", api.Review, api.OutcomeVerified))
	for range 5 {
		day := clock.Now().Format(time.DateOnly)
		storetest.Eventually(t, "the daily checkpoint", func() bool { return replicas[0].Do(http.MethodGet, wellKnown+"/"+day, "").Status == 200 })
		clock.Advance(24 * time.Hour)
	}
	for _, r := range replicas {
		require.LessOrEqual(t, r.published(wellKnown+"/2026-11-24").Number, int64(5))
		r.Stop()
	}
}

func TestKnownAtPastTime(t *testing.T) {
	signing(t, func(t *testing.T, s *service, _ history.Config, c *servicetest.Clock) {
		s.record(line("private", "2026-11-19T00:00:00Z", api.Review, api.OutcomeVerified))
		c.Advance(48 * time.Hour)
		s.record(line("private", "2026-11-18T00:00:00Z", api.LinkCheck, api.OutcomeClosed), line("private", "2026-11-20T00:00:00Z", api.Review, api.OutcomeNeedsReview))
		known := func(at string) api.HistorySnapshot {
			t.Helper()
			return servicetest.Read[api.HistorySnapshot](s.Do(http.MethodGet, "/operator/v1/history/private"+at, ""))
		}
		before, then, today := known("?at=2026-11-20T11:59:59Z"), known("?at=2026-11-20"), known("")
		require.Empty(t, before.Events)
		require.Equal(t, api.Unverified, before.Verification.Status)
		require.Len(t, then.Events, 1)
		require.Equal(t, api.Verified, then.Verification.Status)
		require.Equal(t, "2026-11-20T23:59:59.999999Z", then.At.Format(time.RFC3339Nano))
		require.Equal(t, "ada", then.Events[0].Actor)
		require.Equal(t, now, then.Events[0].RecordedAt)
		require.Len(t, today.Events, 3)
		require.Equal(t, api.NeedsReview, today.Verification.Status)
		require.Equal(t, api.OutcomeNeedsReview, today.Events[0].Outcome, "newest check first")
		require.Equal(t, today, known("?at=2026-11-22"), "the current day must end now")

		for _, at := range []string{"?at=2026-11-23", "?at=2026-11-22T12:00:01Z", "?at=yesterday", "?at=", "?at=2026-11-22T12:00:00"} {
			s.Do(http.MethodGet, "/operator/v1/history/private"+at, "").RequireError("invalid_parameter")
		}
		s.Do(http.MethodGet, "/operator/v1/history/private?on=2026-11-22", "").RequireError("unknown_parameter")
		s.Do(http.MethodGet, "/operator/v1/history/unlisted", "").RequireError("not_found")
		require.Equal(t, http.StatusUnauthorized, s.Do(http.MethodGet, "/operator/v1/history/private", "", "Authorization", "").Status)
	})
}

func TestProofsOfAMissingDatabaseCreateNothing(t *testing.T) {
	dir := t.TempDir()
	cfg := config("sqlite://"+filepath.Join(dir, "history.db"), "http://127.0.0.1:1")
	cfg.Proof.SigningKeys = []string{signingKey}
	require.ErrorContains(t, history.Verify(t.Context(), cfg, nil, io.Discard), "no database")
	require.ErrorContains(t, history.SignNow(t.Context(), cfg, io.Discard), "no database")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}
