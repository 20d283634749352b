package authquota_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/peer"
	pkgservice "opportunity.internal/pkg/service"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/storetest/redistest"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/testkit"
	"opportunity.internal/services/authquota/internal/testkit/sitekit"
)

// revoked is a service whose key was revoked after the backup. kept is a key of an account without
// changes since.
type revoked struct {
	*stores

	t         *testing.T
	key, kept api.IssuedKey
	backups   []func() // each replaces the database with the backup, once
}

func (r *revoked) restore() {
	r.t.Helper()
	r.backups[0]()
	r.backups = r.backups[1:]
}

// newRevoked returns the service after the revocation. It calls before after the backup and before
// the revocation.
func newRevoked(t *testing.T, s *stores, before ...func()) (*revoked, *service) {
	r := &revoked{stores: s, t: t}
	svc := s.start(t)
	r.key, r.kept = svc.issue(nil), svc.issue(nil)
	svc.stop()
	for range 3 {
		r.backups = append(r.backups, storetest.Backup(t, s.Database))
	}
	svc = s.start(t)
	for _, do := range before {
		do()
	}
	servicetest.Read[api.ListedKey](svc.revoke(r.key.ID))
	return r, svc
}

// recover runs Recover.
func (r *revoked) recover(decision pkgservice.Recovery) (string, error) {
	r.t.Helper()
	var out bytes.Buffer
	err := authquota.Recover(r.t.Context(), r.Config(), decision, &out)
	return out.String(), err
}

func (r *revoked) requireStopped(svc *service) {
	r.t.Helper()
	storetest.Eventually(r.t, "the service has compared its database",
		func() bool { return svc.HasMetric(`store_set_back{store="authquota"} 1`) })
	svc.resolve(r.key.Key).RequireError("service_unavailable")
	svc.do(http.MethodGet, "/internal/v1/key-digests", nil).RequireError("service_unavailable")
	svc.browser().Get("/account/sign-in").Shows(http.StatusServiceUnavailable, "Temporarily unavailable")
	svc.do(http.MethodPost, "/operator/v1/keys", `{"useCase":"x"}`).RequireError("service_unavailable",
		"OpportunityStoreSetBack")
	require.Contains(r.t, servicetest.Send(r.t, http.MethodGet, svc.OperationsURL+"/readyz", nil, nil).Body,
		api.SetBackCondition)
	require.Contains(r.t, svc.Log.String(), "database set back")
}

// newest returns the newest mark in Redis.
func (s *stores) newest(t *testing.T) string {
	t.Helper()
	text, err := s.Client().HGet(t.Context(), counter.Epochs, counter.EpochsMark).Result()
	require.NoError(t, err)
	return text
}

var (
	accept  = pkgservice.Recovery{Operator: "ann"}
	current = pkgservice.Recovery{Operator: "ann", Current: true}
)

// The three decisions of an operator: accept the loss, replace the database by a complete one, or
// declare it current.
func TestRestoredDatabaseServesNothingUntilADecision(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		r, svc := newRevoked(t, s)
		svc.stop()
		complete := storetest.Backup(t, s.Database)
		r.restore()
		svc = s.run(t)
		r.requireStopped(svc)

		svc.stop()
		complete() // point-in-time recovery
		svc = s.start(t)
		require.NotNil(t, svc.principal(r.key.Key).RevokedAt)
		_, err := r.recover(accept)
		require.ErrorContains(t, err, "nothing to decide")
		svc.stop()

		r.restore()
		svc = s.run(t)
		r.requireStopped(svc)
		said, err := r.recover(accept)
		require.NoError(t, err)
		require.Contains(t, said, "1 accounts may have lost changes")
		svc.WaitReady()
		require.NotNil(t, svc.principal(r.key.Key).RevokedAt)
		require.Nil(t, svc.principal(r.kept.Key).RevokedAt, "nothing of this account was lost")
		require.Equal(t, "ann", svc.audit("?action=database").Entries[0].Actor)
		svc.stop()

		r.restore() // the generation of the decision is unknown to it
		svc = s.run(t)
		r.requireStopped(svc)
		_, err = r.recover(current)
		require.NoError(t, err)
		svc.WaitReady()
		require.Nil(t, svc.principal(r.key.Key).RevokedAt, "the operator says that nothing was lost")
		servicetest.Read[api.ListedKey](svc.revoke(r.key.ID))
		require.NotNil(t, svc.principal(r.key.Key).RevokedAt)
		svc.stop()
		s.start(t)
	})
}

// The primary is killed, and a replica that lacks a revocation takes over. No request gets a
// principal from it, not even the first.
func TestLaggingReplicaIsNoticedByTheFirstRequest(t *testing.T) {
	t.Parallel()
	pair, redis := storetest.NewPostgresPair(t), redistest.Start(t)
	r := &revoked{t: t, stores: &stores{Stores: sitekit.Stores{
		Redis: redis, Database: pair.Database(), RedisURL: redis.URL,
	}}}
	require.NoError(t, authquota.Migrate(t.Context(), r.Config()))
	svc := r.start(t)
	r.key, r.kept = svc.issue(nil), svc.issue(nil)
	pair.Lag()
	servicetest.Read[api.ListedKey](svc.revoke(r.key.ID))
	r.stopped = true
	pair.KillPrimary()
	pair.Promote()
	storetest.Eventually(t, "the service is connected to the replica", func() bool {
		svc.resolve(r.key.Key).RequireError("service_unavailable")
		return strings.Contains(svc.Log.String(), "database set back")
	})
	r.requireStopped(svc)
	r.restored()
	said, err := r.recover(accept)
	require.NoError(t, err)
	require.Contains(t, said, "1 accounts may have lost changes")
	svc.WaitReady()
	require.NotNil(t, svc.principal(r.key.Key).RevokedAt)
	require.Nil(t, svc.principal(r.kept.Key).RevokedAt)
}

// Another process made the revocation: only Redis tells this one about it.
func TestFailoverIsNoticedByEveryProcess(t *testing.T) {
	onProductionStores(t, func(t *testing.T, s *stores) {
		var other *service
		r, _ := newRevoked(t, s, func() { other = s.start(t) })
		r.restore()
		storetest.Eventually(t, "the service is connected to the replica", func() bool {
			other.resolve(r.key.Key).RequireError("service_unavailable")
			return strings.Contains(other.Log.String(), "database set back")
		})
		r.requireStopped(other)
	})
}

// A repeated revocation is acknowledged only once Redis has the change that made it.
func TestRevocationIsPublishedBeforeItIsAcknowledged(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc := s.start(t)
		key := svc.issue(nil)
		s.Stop()
		svc.revoke(key.ID).RequireError("service_unavailable", "The change is saved")
		s.Start()
		require.Equal(t, "revoked", servicetest.Read[api.ListedKey](svc.revoke(key.ID)).Status)
		require.Regexp(t, `^[0-9a-f]{16}\.3\.`, s.newest(t))
	})
}

// A program with write access to Redis can stop the service with a mark of the right form, and not
// with anything else. An operator says that the marks are wrong.
func TestForgedMarks(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc := s.start(t)
		key := svc.issue(nil)
		for _, forged := range []string{strings.Repeat("9", 40_000), "", "x", "0000000000000001.1",
			"0000000000000001.9223372036854775807.x", "nan", "\x00"} {
			for _, field := range [][2]string{{counter.Epochs, counter.EpochsMark}, {counter.Marks, peer.Authquota},
				{counter.Epochs, key.Account}} {
				require.NoError(t, s.Client().HSet(t.Context(), field[0], field[1], forged).Err())
			}
			require.Equal(t, key.ID, svc.principal(key.Key).Key, "%.20q", forged)
			servicetest.Read[api.ListedAccount](svc.change(key.Account, "grant", `{"tier":"developer"}`))
			require.True(t, svc.HasMetric(`store_set_back{store="authquota"} 0`))
		}
		require.NoError(t, s.Client().HSet(t.Context(), counter.Epochs, counter.EpochsMark, "0123456789abcdef.7.x").Err())
		r := &revoked{stores: s, t: t, key: key}
		r.requireStopped(svc)
		_, err := r.recover(current)
		require.NoError(t, err)
		svc.WaitReady()
		require.Equal(t, key.ID, svc.principal(key.Key).Key)
		storetest.Eventually(t, "the forged mark is replaced",
			func() bool { return !strings.Contains(s.newest(t), "0123456789abcdef") })
	})
}

// Database and Redis are lost together. A gateway has seen the revocation.
func TestRestoreOfBothStoresIsNoticedByAGateway(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		r, svc := newRevoked(t, s)
		seen := s.newest(t)
		svc.stop()
		r.restore()
		s.Flush()
		svc = s.start(t)
		present := func() servicetest.Response {
			return svc.doAs(http.MethodGet, api.MarkPath+"?seen="+url.QueryEscape(seen), nil,
				http.Header{"Authorization": {"Bearer " + servicetest.Token(peer.Gateway)}})
		}
		present().RequireError("service_unavailable")
		r.requireStopped(svc)
		said, err := r.recover(accept)
		require.NoError(t, err)
		require.Contains(t, said, "2 accounts may have lost changes", "Redis does not know which")
		svc.WaitReady()
		require.NotNil(t, svc.principal(r.key.Key).RevokedAt)
		require.NotNil(t, svc.principal(r.kept.Key).RevokedAt)
		require.Equal(t, http.StatusOK, present().Status, "the loss was accepted")
	})
}

// Database and Redis are lost together while no process of authquota runs. Gateways have put the
// mark back into Redis.
func TestServiceWaitsForTheMarksOfGateways(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		r, svc := newRevoked(t, s)
		seen := s.newest(t)
		svc.stop()
		r.restore()
		s.Flush()
		svc = s.run(t)
		require.NoError(t, s.Client().HSet(t.Context(), counter.Marks, peer.Authquota, seen).Err())
		r.requireStopped(svc)
	})
}

// No mark is remembered. After eleven minutes without a process, the database may be an old backup.
func TestColdStart(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		at := begin
		adjust := func(c *authquota.Config) { c.Now = func() time.Time { return at } }
		svc := s.start(t, adjust)
		key := svc.issue(nil)
		storetest.Eventually(t, "a heartbeat",
			func() bool { return s.number(t, "SELECT max(alive_at) FROM generations") > 0 })
		svc.stop()

		at = begin.Add(9 * time.Minute)
		s.Flush()
		svc = s.start(t, adjust)
		require.Equal(t, key.ID, svc.principal(key.Key).Key)
		storetest.Eventually(t, "a heartbeat",
			func() bool { return s.number(t, "SELECT max(alive_at) FROM generations") > begin.UnixMicro() })
		svc.stop()

		at = at.Add(11 * time.Minute)
		s.Flush()
		svc = s.run(t, adjust)
		r := &revoked{stores: s, t: t, key: key}
		r.requireStopped(svc)
		_, err := r.recover(current)
		require.NoError(t, err)
		svc.WaitReady()
		require.Equal(t, key.ID, svc.principal(key.Key).Key)
	})
}

// number returns the result of a query.
func (s *stores) number(t *testing.T, query string) (n int64) {
	t.Helper()
	db := servicetest.OpenDatabase(t, s.Database)
	defer db.Close()
	require.NoError(t, db.Raw(query).Scan(&n).Error)
	return n
}

// An operator accepts the loss of what people did since the backup. Nothing that was used up works,
// and each account is as closed or suspended as before.
func TestAcceptedLossRevivesNothing(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startAt(t, begin)
		var people []*browser
		var keys []api.IssuedKey
		for i := range 4 {
			b := svc.browser()
			b.signUp(fmt.Sprintf("person%d@example.org", i))
			people, keys = append(people, b), append(keys, svc.issue(map[string]any{"account": b.Account}))
		}
		ada, bob, eve, dan := people[0], people[1], people[2], people[3]
		link := ada.other().askFor("/account/forgot", ada.Email, "reset-password", 1)
		svc.stop()
		restore := storetest.Backup(t, s.Database)

		svc, _ = s.startAt(t, begin.Add(time.Minute))
		ada.at(svc).Post("/account/sign-out").Leads("/account/sign-in")
		reset := ada.at(svc).other()
		form := reset.Get(link).Shows(http.StatusOK, "Choose a new password")
		require.Equal(t, http.StatusSeeOther, reset.Post("/account/reset", "token", testkit.Token(form), "password",
			"nineteen-quiet-bicycles").Status)
		servicetest.Read[api.ListedAccount](svc.change(bob.Account, "suspend", `{"reason":"unpaid"}`))
		eve.at(svc).Post("/account/security/close", "email", eve.Email).Leads("/account/sign-in")
		svc.stop()
		restore()

		svc = s.run(t, func(c *authquota.Config) { c.Now = func() time.Time { return begin.Add(2 * time.Minute) } })
		r := &revoked{stores: s, t: t, key: keys[0]}
		for _, step := range []string{"INSERT ON generations", "DELETE ON claims", "UPDATE ON accounts",
			"INSERT ON audit_log"} {
			r.requireStopped(svc)
			end := servicetest.Crash(t, s.Database, step)
			_, err := r.recover(accept)
			end()
			require.ErrorContains(t, err, "nothing was decided, run it again", step)
			svc.stop()
			svc = s.run(t, func(c *authquota.Config) { c.Now = func() time.Time { return begin.Add(2 * time.Minute) } })
		}
		r.requireStopped(svc)
		said, err := r.recover(accept)
		require.NoError(t, err)
		require.Contains(t, said, "3 accounts may have lost changes")
		svc.WaitReady()
		for i, b := range people[:3] {
			require.NotNil(t, svc.principal(keys[i].Key).RevokedAt)
			b.at(svc).Get("/account").Leads("/account/sign-in") // the session ended
			b.at(svc).other().Post("/account/sign-in", "email", b.Email, "password",
				b.Password).Shows(http.StatusUnprocessableEntity)
		}
		require.True(t, svc.principal(keys[1].Key).Suspended)
		require.NotNil(t, svc.shown(eve.Account).ClosedAt)
		svc.browser().Get(link).Shows(http.StatusGone)
		require.Zero(t, s.number(t, "SELECT count(*) FROM recovery_codes WHERE account_id <> '"+dan.Account+"'"))
		require.Zero(t, s.number(t,
			"SELECT count(*) FROM people WHERE totp_confirmed_at IS NOT NULL AND account_id <> '"+dan.Account+"'"))

		require.Nil(t, svc.principal(keys[3].Key).RevokedAt)
		dan.at(svc).Get("/account").Shows(http.StatusOK)
		again := ada.at(svc).other().askFor("/account/forgot", ada.Email, "reset-password", 2)
		ada.at(svc).other().Get(again).Shows(http.StatusOK, "Choose a new password")
	})
}
