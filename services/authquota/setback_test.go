package authquota_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/peer"
	pkgservice "opportunity.internal/pkg/service"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota"
)

// revoked is a service with a journal in a file. key was revoked after the backup.
type revoked struct {
	*stores

	t       *testing.T
	journal string
	key     issued
	restore func() // replaces the database with the backup
}

// newRevoked returns the service after the revocation. It calls before after the backup and before the revocation.
func newRevoked(t *testing.T, s *stores, before ...func()) (*revoked, *service) {
	r := &revoked{stores: s, t: t, journal: filepath.Join(t.TempDir(), "journal.jsonl")}
	svc := s.start(t, r.adjust)
	r.key = svc.issue(nil)
	svc.stop()
	r.restore = storetest.Backup(t, s.database)
	svc = s.start(t, r.adjust)
	for _, do := range before {
		do()
	}
	servicetest.Read[listedKey](svc.revoke(r.key.ID))
	return r, svc
}

func (r *revoked) adjust(c *authquota.Config) { c.JournalFile = r.journal }

// recover runs Recover.
func (r *revoked) recover(decision pkgservice.Recovery) (string, error) {
	r.t.Helper()
	var out bytes.Buffer
	err := authquota.Recover(r.t.Context(), r.config(), decision, &out)
	return out.String(), err
}

func (r *revoked) requireStopped(svc *service) {
	r.t.Helper()
	svc.resolve(r.key.Key).RequireError("service_unavailable")
	svc.do(http.MethodGet, "/internal/v1/key-digests", nil).RequireError("service_unavailable")
	svc.browser().Get("/account/sign-in").Shows(http.StatusServiceUnavailable, "Temporarily unavailable")
	svc.do(http.MethodPost, "/operator/v1/keys", `{"useCase":"x"}`).RequireError("service_unavailable", "OpportunityStoreSetBack")
	require.Contains(r.t, servicetest.Send(r.t, http.MethodGet, svc.OperationsURL+"/readyz", nil, nil).Body, api.SetBackCondition)
	require.True(r.t, svc.HasMetric(`store_set_back{store="authquota"} 1`))
}

// failOver replaces the database with the backup while svc runs, and requires that svc never answers from it.
func (r *revoked) failOver(svc *service) {
	r.t.Helper()
	r.restore()
	r.restarted = false
	storetest.Eventually(r.t, "the service is connected to the replica", func() bool {
		svc.resolve(r.key.Key).RequireError("service_unavailable")
		return strings.Contains(svc.Log.String(), "database set back")
	})
	r.requireStopped(svc)
}

func TestRestoredDatabaseServesNothingUntilAReplay(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		r, svc := newRevoked(t, s)
		svc.stop()
		r.restore()
		svc = s.run(t, r.adjust)
		storetest.Eventually(t, "the service has compared its database", func() bool { return svc.HasMetric(`store_set_back{store="authquota"} 1`) })
		r.requireStopped(svc)
		require.Contains(t, svc.Log.String(), `"lacks":"change 2 `)

		_, err := r.recover(pkgservice.Recovery{Replay: filepath.Join("testdata", "..", "setup_test.go")})
		require.ErrorContains(t, err, "no line of a journal")
		out, err := r.recover(pkgservice.Recovery{Replay: r.journal})
		require.NoError(t, err)
		require.Equal(t, "replayed: changes 1\n", out)
		svc.WaitReady()
		require.NotContains(t, svc.Log.String(), "OPPORTUNITY_JOURNAL_FILE is not set")
		require.NotNil(t, svc.principal(r.key.Key).RevokedAt)
		entry := svc.audit("?action=key.revoke").Entries[0]
		require.Equal(t, servicetest.Actor, entry.Actor)
		require.Contains(t, string(entry.Detail), "replayedAt")
		_, err = r.recover(pkgservice.Recovery{Operator: "ann"})
		require.ErrorContains(t, err, "nothing to accept")
	})
}

// The journal alone shows it, without Redis.
func TestRestoredDatabaseIsNoticedByTheJournal(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		r, svc := newRevoked(t, s)
		svc.stop()
		r.restore()
		s.Flush()
		svc = s.run(t, r.adjust)
		storetest.Eventually(t, "set back", func() bool { return svc.HasMetric(`store_set_back{store="authquota"} 1`) })
		r.requireStopped(svc)

		out, err := r.recover(pkgservice.Recovery{Operator: "ann"})
		require.NoError(t, err)
		require.Contains(t, out, "generation 2 begins")
		svc.WaitReady()
		require.Nil(t, svc.principal(r.key.Key).RevokedAt, "the loss was accepted")
		require.Equal(t, "ann", svc.audit("?action=database").Entries[0].Actor)
		servicetest.Read[listedKey](svc.revoke(r.key.ID))
		require.NotNil(t, svc.principal(r.key.Key).RevokedAt)
		svc.stop()
		s.start(t, r.adjust)
	})
}

// A lagging replica takes over while the service runs. No request gets a principal from it, not even the first.
func TestFailoverToALaggingReplicaIsNoticedByTheFirstRequest(t *testing.T) {
	onProductionStores(t, func(t *testing.T, s *stores) {
		r, svc := newRevoked(t, s)
		r.failOver(svc)
	})
}

// Another process made the revocation, and its journal is a file of its own: only Redis tells this one about it.
func TestFailoverIsNoticedByEveryProcess(t *testing.T) {
	onProductionStores(t, func(t *testing.T, s *stores) {
		var other *service
		r, _ := newRevoked(t, s, func() {
			other = s.start(t, func(c *authquota.Config) { c.JournalFile = filepath.Join(t.TempDir(), "journal.jsonl") })
		})
		r.failOver(other)
	})
}

// A repeated revocation is acknowledged only once Redis has the change that made it.
func TestRevocationIsReportedBeforeItIsAcknowledged(t *testing.T) {
	t.Parallel()
	s := localStores(t)
	svc := s.start(t)
	key := svc.issue(nil)
	s.Stop()
	svc.revoke(key.ID).RequireError("service_unavailable", "The change is saved")
	s.Start()
	require.Equal(t, "revoked", servicetest.Read[listedKey](svc.revoke(key.ID)).Status)
	require.Regexp(t, `^2\.`, s.newest(t))
}

// A program with write access to Redis must not be able to stop the service, or to take the numbers of all further changes.
func TestForgedMarkInRedisIsReplaced(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc := s.start(t)
		require.NoError(t, s.Client().Set(t.Context(), counter.Mark(peer.Authquota), "9223372036854775807.x..AAAA", 0).Err())
		key := svc.issue(nil)
		require.NotNil(t, svc.principal(key.Key))
		require.Regexp(t, `^1\.`, s.newest(t))
		require.Contains(t, svc.Log.String(), "high-water mark rejected")
		require.False(t, svc.HasMetric(`store_marks_rejected_total{store="authquota"} 0`))
		require.True(t, svc.HasMetric(`store_set_back{store="authquota"} 0`))
	})
}

// The disk of the journal is full. A repeated revocation has no line of its own, but that of the first is not written.
func TestRepeatedRevocationIsAcknowledgedOnlyWithItsLine(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		disk := filepath.Join(t.TempDir(), "disk")
		require.NoError(t, os.Mkdir(disk, 0o700))
		svc := s.start(t, func(c *authquota.Config) { c.JournalFile = filepath.Join(disk, "journal.jsonl") })
		key := svc.issue(nil)
		require.NoError(t, os.RemoveAll(disk))
		for range 2 {
			svc.revoke(key.ID).RequireError("service_unavailable", "The change is saved")
		}
		require.NotNil(t, svc.principal(key.Key).RevokedAt)
		require.NoError(t, os.Mkdir(disk, 0o700))
		servicetest.Read[listedKey](svc.revoke(key.ID))
		written, err := os.ReadFile(filepath.Join(disk, "journal.jsonl"))
		require.NoError(t, err)
		require.Contains(t, string(written), `"action":"key.revoke"`)
	})
}

// Database and Redis are restored together, and there is no journal file. A gateway has seen the revocation.
func TestRestoreOfBothStoresIsNoticedByAGateway(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		r, svc := newRevoked(t, s)
		seen := s.newest(t)
		require.Regexp(t, `^2\.`, seen)
		svc.stop()
		r.restore()
		s.Flush()
		svc = s.start(t)
		require.Contains(t, svc.Log.String(), "OPPORTUNITY_JOURNAL_FILE is not set")
		require.Nil(t, svc.principal(r.key.Key).RevokedAt, "nothing in this installation knows it")
		svc.issue(nil)
		require.Regexp(t, `^2\.`, s.newest(t), "the sequence is used again")
		svc.issue(nil)

		tiers := func() servicetest.Response {
			return svc.doAs(http.MethodGet, "/internal/v1/settings", nil,
				http.Header{api.SeenMarksHeader: {seen}, "Authorization": {"Bearer " + servicetest.Token(peer.Gateway)}})
		}
		tiers().RequireError("service_unavailable")
		r.requireStopped(svc)
		out, err := r.recover(pkgservice.Recovery{Operator: "ann"})
		require.NoError(t, err)
		require.Contains(t, out, "generation 2 begins")
		svc.WaitReady()
		require.Equal(t, http.StatusOK, tiers().Status, "the loss was accepted")
	})
}

// newest returns the newest change in Redis.
func (s *stores) newest(t *testing.T) string {
	t.Helper()
	text, err := s.Client().Get(t.Context(), counter.Mark(peer.Authquota)).Result()
	require.NoError(t, err)
	return text
}
