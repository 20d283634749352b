package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/storetest"
)

// restores are the stores that are restored together. An operator then accepts the loss.
var restores = []struct {
	stores []string
	short  bool // in the short form, too
}{
	{stores: []string{"redis"}},
	{stores: []string{"authquota"}, short: true},
	{stores: []string{"history"}},
	{stores: []string{"catalog"}},
	{stores: []string{"billing"}},
	{stores: []string{"history", "catalog"}},
	{stores: []string{"redis", "history"}},
}

// TestFaultsRestore restores stores to an earlier point under steady traffic. A key that was
// revoked since and an account that was suspended since must not work again, no second checkpoint
// of a size may be published, and an owner must not be ready until an operator has decided.
func TestFaultsRestore(t *testing.T) {
	t.Parallel()
	s, readers := newStackWithReaders(t, parts{billing: true}, fmt.Sprintf("OPPORTUNITY_HISTORY_SIGNING_KEY=%064d", 1))
	signed := map[string]string{} // root by origin and size of a checkpoint
	for _, r := range restores {
		if !r.short && campaign == 0 {
			continue
		}
		name := strings.Join(r.stores, ", ")
		t.Run(name, func(t *testing.T) {
			row := newResult(t, "restored to an earlier point: "+name,
				"no call of a revoked key or a suspended account succeeds, no second checkpoint of a size is published, nothing is sold and owners are not ready until the decision")
			f := &restored{stack: s, t: t, stores: r.stores, signed: signed, reader: readers[0].keys[0].Key}
			f.run(readers, row)
		})
	}
}

// restored is one run of the fault.
type restored struct {
	*stack

	t      *testing.T
	stores []string
	signed map[string]string // root by origin and size of a checkpoint

	reader             string // a key
	revoked, suspended issued
	paid               issued // bought before the backup
}

func (f *restored) run(readers []caller, row *result) {
	t := f.t
	f.revoked, f.suspended = f.issue(t, api.Commercial), f.issue(t, api.Commercial)
	dead := []caller{{kind: "dead", path: listPath, keys: []issued{f.revoked, f.suspended}}}
	f.knows(t, dead[0].keys...)
	if slices.Contains(f.stores, "billing") {
		f.paid = f.bought()
	}
	f.checkpoint()
	events := f.eventCount(t, f.reader)
	restores := []func(){}
	for _, store := range f.stores {
		restores = append(restores, f.backup(store))
	}
	f.act(events)

	honest, late := f.send(t, rate(), readers), f.send(t, rate()/4, dead)
	honest.succeeds()
	begin := time.Now()
	for _, restore := range restores {
		restore()
	}
	set := time.Now()
	owners := slices.DeleteFunc(slices.Clone(f.stores), func(store string) bool { return store == "redis" })
	for _, owner := range owners {
		eventually(t, owner+" is not ready", func() bool { return f.isSetBack(t, owner) })
	}
	noticed := time.Now()
	honest.next(duration())
	for _, owner := range owners {
		require.True(t, f.isSetBack(t, owner), "no operator has decided")
	}
	if f.paid.Key != "" {
		require.Error(t, f.buy(t.Context(), f.issue(t, api.Free).Account), "a restored database must not sell")
	}
	if !slices.Contains(owners, "history") {
		f.checkpoint()
	}
	decided := time.Now()
	for _, owner := range owners {
		f.recover(owner)
	}
	f.ready(t)
	back := honest.succeeds()
	f.requireDead()
	if f.paid.Key != "" {
		f.hasPlan(t, f.paid)
		f.bought()
	}
	calls, dying := honest.end(), late.end()

	require.Subset(t, []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable},
		keysOf(counts(dying)))
	figures := []string{}
	for _, c := range readers {
		during := between(calls, c.kind, begin, decided)
		figures = append(figures, fmt.Sprintf("%s 503 × %d of %d", c.kind, unavailable(t, during), len(during)))
	}
	if !slices.Contains(owners, "history") {
		events++
	}
	f.awaitEvents(t, f.reader, events) // the catalog has the statuses of history
	f.checkpoint()
	row.set("0 of %d calls succeed; noticed after %.1f s; %s; normal %.1f s after the decision", len(dying),
		noticed.Sub(set).Seconds(),
		strings.Join(figures, ", "), back.Sub(decided).Seconds())
}

// backup copies a store and returns a function that restores it to the copy.
func (f *restored) backup(store string) (restore func()) {
	if store == "redis" {
		return f.backupRedis()
	}
	l := f.link(store, "postgres")
	l.cut()
	replace := storetest.Backup(f.t, f.databases[store])
	l.repair()
	f.ready(f.t)
	return func() {
		l.cut()
		replace()
		l.repair()
	}
}

func (f *restored) backupRedis() (restore func()) {
	type saved struct {
		value string
		ttl   time.Duration
	}
	client, all := f.redis.Client(), map[string]saved{}
	for _, key := range client.Keys(f.t.Context(), "*").Val() {
		value, err := client.Dump(f.t.Context(), key).Result()
		if errors.Is(err, redis.Nil) { // deleted meanwhile, as a set whose members were copied
			continue
		}
		require.NoError(f.t, err)
		all[key] = saved{value, max(client.PTTL(f.t.Context(), key).Val(), 0)} // 0: none
	}
	require.NotEmpty(f.t, all)
	return func() {
		tx := client.TxPipeline()
		tx.FlushAll(f.t.Context())
		for key, s := range all {
			tx.Restore(f.t.Context(), key, s.ttl, s.value)
		}
		_, err := tx.Exec(f.t.Context())
		require.NoError(f.t, err)
	}
}

// act makes the changes that the backups lack, and waits until each service has seen those of the
// others.
func (f *restored) act(events int) {
	t := f.t
	f.verb(t, "", "keys", "revoke", f.revoked.ID)
	if f.paid.Key != "" {
		f.bought()
	}
	f.verb(t, "", "accounts", "suspend", f.suspended.Account, "--reason", "test")
	f.verb(t, linkCheck("maple-scribe", "n"), "events", "append", "-")
	f.verb(t, "", "listings", "withdraw", "prairie-code", "--reason", "test")
	f.verb(t, "", "listings", "publish", "--yes", "prairie-code")
	f.awaitEvents(t, f.reader, events+1)
	f.checkpoint()
	f.requireDead()
	f.changesAreSeen(t)
}

// bought buys the plan for a new account and returns its key, which then has a history.
func (f *restored) bought() issued {
	f.t.Helper()
	key := f.issue(f.t, api.Free)
	require.NoError(f.t, f.buy(f.t.Context(), key.Account))
	f.hasPlan(f.t, key)
	return key
}

// checkpoint reads the published checkpoint. No two have the same origin and size.
func (f *restored) checkpoint() {
	f.t.Helper()
	var lines []string
	eventually(f.t, "the log is served", func() bool {
		a := get(f.t, f.url, "", "/.well-known/opportunity-history/log/checkpoint")
		lines = strings.Split(string(a.body), "\n")
		return a.StatusCode == http.StatusOK
	})
	of := lines[0] + " " + lines[1]
	if before, again := f.signed[of]; again {
		require.Equal(f.t, before, lines[2], "a second checkpoint %s", of)
	}
	f.signed[of] = lines[2]
}

// recover does what the runbook says.
func (f *restored) recover(owner string) {
	f.t.Helper()
	out, errs, code := run(f.t, f.settings[owner], "", program(f.t, owner), "recover", "--accept", "--operator", "ann")
	require.Zero(f.t, code, "%s%s", out, errs)
}

func (f *restored) requireDead() {
	f.t.Helper()
	for _, gateway := range f.gateways {
		for _, key := range []string{f.revoked.Key, f.suspended.Key} { // whose key is revoked, too, if the loss was accepted
			eventually(f.t, "the key is rejected", func() bool {
				a := get(f.t, gateway, key, listPath)
				require.NotEqual(f.t, http.StatusOK, a.StatusCode)
				return a.code() == string(problem.RevokedAPIKey) || a.code() == string(problem.AccountSuspended)
			})
		}
	}
}
