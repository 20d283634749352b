package authquota_test

import (
	"bytes"
	"fmt"
	"maps"
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
	*sitekit.Stores

	t         *testing.T
	key, kept api.IssuedKey
	backups   []func() // each replaces the database with the backup, once
}

func (r *revoked) restore() {
	r.t.Helper()
	r.backups[0]()
	r.backups = r.backups[1:]
}

// newRevoked returns the service after the revocation.
func newRevoked(t *testing.T, s *sitekit.Stores) (*revoked, *sitekit.Site) {
	r := &revoked{Stores: s, t: t}
	svc := s.Serve(t)
	r.key, r.kept = svc.Issue(""), svc.Issue("")
	svc.Stop()
	for range 3 {
		r.backups = append(r.backups, storetest.Backup(t, s.Database))
	}
	svc = s.Serve(t)
	servicetest.Read[api.ListedKey](svc.Revoke(r.key.ID))
	return r, svc
}

// runRestored replaces the database with the backup and runs the service, which notices it.
func (r *revoked) runRestored() *sitekit.Site {
	r.t.Helper()
	r.restore()
	svc := r.Run(r.t)
	r.requireStopped(svc)
	return svc
}

// recover runs Recover.
func (r *revoked) recover(decision pkgservice.Recovery) (string, error) {
	r.t.Helper()
	var out bytes.Buffer
	err := authquota.Recover(r.t.Context(), r.Config(), decision, &out)
	return out.String(), err
}

// decide runs Recover, and returns what it says once the service is ready.
func (r *revoked) decide(svc *sitekit.Site, decision pkgservice.Recovery) string {
	r.t.Helper()
	said := storetest.Must(r.recover(decision))(r.t)
	svc.WaitReady()
	return said
}

func (r *revoked) requireStopped(svc *sitekit.Site) {
	r.t.Helper()
	storetest.Eventually(r.t, "the service has compared its database",
		func() bool { return svc.HasMetric(`store_set_back{store="authquota"} 1`) })
	svc.Resolve(r.key.Key).RequireError("service_unavailable")
	svc.Do(http.MethodGet, "/internal/v1/key-digests", nil).RequireError("service_unavailable")
	svc.Visitor().Get("/account/sign-in").Shows(http.StatusServiceUnavailable, "Temporarily unavailable")
	svc.Do(http.MethodPost, "/operator/v1/keys", `{"useCase":"x"}`).RequireError("service_unavailable",
		"OpportunityStoreSetBack")
	require.Contains(r.t, servicetest.Send(r.t, http.MethodGet, svc.OperationsURL+"/readyz", nil, nil).Body,
		api.SetBackCondition)
	require.Contains(r.t, svc.Log.String(), "database set back")
}

// newest returns the newest mark in Redis.
func newest(t *testing.T, s *sitekit.Stores) string {
	t.Helper()
	return storetest.Must(s.Client().HGet(t.Context(), counter.Epochs, counter.EpochsMark).Result())(t)
}

var (
	accept  = pkgservice.Recovery{Operator: "ann"}
	current = pkgservice.Recovery{Operator: "ann", Current: true}
)

// The three decisions of an operator: accept the loss, replace the database by a complete one, or
// declare it current.
func TestRestoredDatabaseServesNothingUntilADecision(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *sitekit.Stores) {
		r, svc := newRevoked(t, s)
		svc.Stop()
		complete := storetest.Backup(t, s.Database)
		svc = r.runRestored()

		svc.Stop()
		complete() // point-in-time recovery
		svc = s.Serve(t)
		require.NotNil(t, svc.Principal(r.key.Key).RevokedAt)
		require.ErrorContains(t, storetest.Err(r.recover(accept)), "nothing to decide")
		svc.Stop()

		svc = r.runRestored()
		require.Contains(t, r.decide(svc, accept), "1 accounts may have lost changes")
		require.NotNil(t, svc.Principal(r.key.Key).RevokedAt)
		require.Nil(t, svc.Principal(r.kept.Key).RevokedAt, "nothing of this account was lost")
		require.Equal(t, "ann", svc.AuditEntries("?action=database")[0].Actor)
		svc.Stop()

		svc = r.runRestored() // the generation of the decision is unknown to it
		r.decide(svc, current)
		require.Nil(t, svc.Principal(r.key.Key).RevokedAt, "the operator says that nothing was lost")
		servicetest.Read[api.ListedKey](svc.Revoke(r.key.ID))
		require.NotNil(t, svc.Principal(r.key.Key).RevokedAt)
		svc.Stop()
		s.Serve(t)
	})
}

// The primary is killed, and a replica that lacks a revocation takes over. No request gets a
// principal from it, not even the first.
func TestLaggingReplicaIsNoticedByTheFirstRequest(t *testing.T) {
	t.Parallel()
	pair := storetest.NewPostgresPair(t)
	r := &revoked{t: t, Stores: sitekit.NewStores(t, pair.Database(), redistest.Start(t))}
	require.NoError(t, authquota.Migrate(t.Context(), r.Config()))
	svc := r.Serve(t)
	r.key, r.kept = svc.Issue(""), svc.Issue("")
	pair.Lag()
	servicetest.Read[api.ListedKey](svc.Revoke(r.key.ID))
	pair.KillPrimary()
	pair.Promote()
	storetest.Eventually(t, "the service is connected to the replica", func() bool {
		svc.Resolve(r.key.Key).RequireError("service_unavailable")
		return strings.Contains(svc.Log.String(), "database set back")
	})
	r.requireStopped(svc)
	r.Recovered()
	require.Contains(t, r.decide(svc, accept), "1 accounts may have lost changes")
	require.NotNil(t, svc.Principal(r.key.Key).RevokedAt)
	require.Nil(t, svc.Principal(r.kept.Key).RevokedAt)
}

// Database and Redis are lost together. A gateway has seen the revocation.
func TestRestoreOfBothStoresIsNoticedByAGateway(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *sitekit.Stores) {
		r, svc := newRevoked(t, s)
		seen := newest(t, s)
		lose := func() {
			svc.Stop()
			r.restore()
			s.Flush()
		}
		lose()
		svc = s.Run(t) // waits for gateways, which have put the mark back into Redis
		require.NoError(t, s.Client().HSet(t.Context(), counter.Marks, peer.Authquota, seen).Err())
		r.requireStopped(svc)

		lose()
		svc = s.Serve(t)
		present := func() servicetest.Response {
			return servicetest.Send(t, http.MethodGet, svc.URL+api.MarkPath+"?seen="+url.QueryEscape(seen), nil,
				http.Header{"Authorization": {"Bearer " + servicetest.Token(peer.Gateway)}})
		}
		present().RequireError("service_unavailable")
		r.requireStopped(svc)
		require.Contains(t, r.decide(svc, accept), "2 accounts may have lost changes", "Redis does not know which")
		require.NotNil(t, svc.Principal(r.key.Key).RevokedAt)
		require.NotNil(t, svc.Principal(r.kept.Key).RevokedAt)
		require.Equal(t, http.StatusOK, present().Status, "the loss was accepted")
	})
}

// No mark is remembered. After eleven minutes without a process, the database may be an old backup.
func TestColdStart(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *sitekit.Stores) {
		svc, now := startAt(t, s, begin)
		key := svc.Issue("")
		storetest.Eventually(t, "a heartbeat",
			func() bool { return number(t, s, "SELECT max(alive_at) FROM generations") > 0 })
		svc.Stop()

		now.Advance(9 * time.Minute)
		s.Flush()
		svc = s.Serve(t, on(now))
		require.Equal(t, key.ID, svc.Principal(key.Key).Key)
		storetest.Eventually(t, "a heartbeat",
			func() bool { return number(t, s, "SELECT max(alive_at) FROM generations") > begin.UnixMicro() })
		svc.Stop()

		now.Advance(11 * time.Minute)
		s.Flush()
		svc = s.Run(t, on(now))
		r := &revoked{Stores: s, t: t, key: key}
		r.requireStopped(svc)
		r.decide(svc, current)
		require.Equal(t, key.ID, svc.Principal(key.Key).Key)
	})
}

// number returns the result of a query.
func number(t *testing.T, s *sitekit.Stores, query string) (n int64) {
	t.Helper()
	db := servicetest.OpenDatabase(t, s.Database)
	defer db.Close()
	require.NoError(t, db.Raw(query).Scan(&n).Error)
	return n
}

// An operator accepts the loss of what people did since the backup. Nothing that was used up works,
// and each account is as closed or suspended as before.
func TestAcceptedLossRevivesNothing(t *testing.T) {
	s := onStores(t)
	svc, now := startAt(t, s, begin)
	var people []*testkit.Person
	var keys []api.IssuedKey
	for i := range 4 {
		b := svc.SignUp(fmt.Sprintf("person%d@example.org", i))
		people, keys = append(people, b), append(keys, svc.Issue(b.Account))
	}
	ada, bob, eve, dan := people[0], people[1], people[2], people[3]
	resetLink := func(n int) string {
		ada.Other().Post("/account/forgot", "email", ada.Email)
		return testkit.Links(s.Mail(t, ada.Email, "reset-password", n).Text)[0]
	}
	run := func() {
		svc = s.Run(t, on(now))
		for i, b := range people {
			people[i].Browser = svc.Visit(b).Browser
		}
	}
	link := resetLink(1)
	svc.Stop()
	restore := storetest.Backup(t, s.Database)

	now.Advance(time.Minute)
	run()
	svc.WaitReady()
	session := maps.Clone(ada.Cookies)
	ada.Post("/account/sign-out").Leads("/account/sign-in")
	form := ada.Get(link).Shows(http.StatusOK, "Choose a new password")
	ada.Post("/account/reset", "token", testkit.Token(form), "password", "nineteen-quiet-bicycles").
		Leads("/account/sign-in")
	svc.Suspend(bob.Account, "unpaid")
	eve.Post("/account/security/close", "email", eve.Email).Leads("/account/sign-in")
	svc.Stop()
	restore()

	now.Advance(time.Minute)
	run()
	r := &revoked{Stores: s, t: t, key: keys[0]}
	for _, step := range []string{"INSERT ON generations", "DELETE ON claims", "UPDATE ON accounts",
		"INSERT ON audit_log"} {
		r.requireStopped(svc)
		end := servicetest.Crash(t, s.Database, step)
		_, err := r.recover(accept)
		end()
		require.ErrorContains(t, err, "nothing was decided, run it again", step)
		svc.Stop()
		run()
	}
	r.requireStopped(svc)
	require.Contains(t, r.decide(svc, accept), "3 accounts may have lost changes")
	ada.Cookies = session
	for i, b := range people[:3] {
		require.NotNil(t, svc.Principal(keys[i].Key).RevokedAt)
		b.Get("/account").Leads("/account/sign-in") // the session ended
		b.Other().EnterPassword().Shows(http.StatusUnprocessableEntity)
	}
	require.True(t, svc.Principal(keys[1].Key).Suspended)
	require.NotNil(t, svc.Account(eve.Account).ClosedAt)
	svc.Visitor().Get(link).Shows(http.StatusGone)
	for _, query := range []string{"recovery_codes WHERE", "people WHERE totp_confirmed_at IS NOT NULL AND"} {
		require.Zero(t, number(t, s, "SELECT count(*) FROM "+query+" account_id <> '"+dan.Account+"'"))
	}

	require.Nil(t, svc.Principal(keys[3].Key).RevokedAt)
	dan.Get("/account").Shows(http.StatusOK)
	ada.Other().Get(resetLink(2)).Shows(http.StatusOK, "Choose a new password")
}
