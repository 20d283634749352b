package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/storetest"
)

// TestFaultsUpgrade replaces every process, one by one and several times, while the tokens between
// services and the pepper are rotated as docs/operators/secrets.md describes. The clocks of the
// gateways are 30 seconds apart, and paid periods end meanwhile.
func TestFaultsUpgrade(t *testing.T) {
	t.Parallel()
	row := newResult(t, "rolling upgrade with new tokens and a new pepper, gateway clocks -30, 0 and +30 s",
		"0 failed calls; a paid period ends within its second by the gateway's clock; no entitlement or key is lost")
	s, readers := newStackWithReaders(t,
		parts{relayed: true, clocks: []time.Duration{-30 * time.Second, 0, 30 * time.Second}},
		"OPPORTUNITY_TIERS=commercial=10000/1000000/100,free=10000/1000000/10", "OPPORTUNITY_SHUTDOWN_GRACE=1s")
	u := newUpgrade(t, s)
	lasts := caller{kind: "lasts", path: historyPath, keys: []issued{u.lasts(time.Hour)}}
	ends := []caller{{kind: "ends", path: historyPath, keys: u.endingKeys()}, lasts}
	tr := sendTo(t, u.pick, rate(), append(readers, ends...))
	tr.succeeds()
	begin := time.Now()
	const maxRounds = 7 // with the first pepper, as many as services accept
	for round := 0; round == 0 || round < maxRounds && time.Since(begin) < time.Duration(campaign)*time.Second; round++ {
		u.rotate(round)
	}
	tr.next(rate())
	took := time.Since(begin)
	calls := tr.end()
	u.has()

	exact, uncertain := 0, 0
	var others []sent
	for _, c := range calls {
		switch want := u.want(c); {
		case c.kind != "ends":
			others = append(others, c)
		case c.isLate():
		case want == 0:
			uncertain++
			require.Contains(t, []int{http.StatusOK, http.StatusPaymentRequired}, c.status)
		default:
			exact++
			require.Equal(t, want, c.status, "gateway %s, %s after the end", c.gateway, c.from.Sub(u.ends[c.account]))
		}
	}
	require.NotZero(t, exact)
	requireServed(t, others, "calls of accounts that keep their tier")
	row.set("0 of %d calls failed while %d processes were replaced in %.0f s; %d calls before or after the end of a paid period as due, %d within its second; 0 of %d entitlements and keys lost",
		len(calls), u.replaced, took.Seconds(), exact, uncertain, len(u.granted))
}

// upgrade is a rolling upgrade of a stack, behind a load balancer that sends requests to the newest
// gateways.
type upgrade struct {
	*stack

	t        *testing.T
	changed  map[string][]string // settings by service
	suffix   string              // of the tokens that replace the first ones
	peppers  []string
	running  map[string][]*process // by service
	replaced int

	mu  sync.Mutex               // of the addresses of the gateways
	own map[string]time.Duration // clock of each gateway minus the right one, by address

	ends    map[string]time.Time // of paid periods that end, by account
	granted []issued             // with a paid period that lasts
	version int64                // of the latest entitlement
}

func newUpgrade(t *testing.T, s *stack) *upgrade {
	t.Helper()
	u := &upgrade{stack: s, t: t, changed: map[string][]string{}, peppers: []string{pepper},
		running: map[string][]*process{}, own: map[string]time.Duration{}, ends: map[string]time.Time{}}
	for i, gateway := range s.gateways {
		u.own[gateway] = s.clocks[i]
	}
	for _, p := range s.processes {
		service, _, _ := strings.Cut(p.name, " ")
		u.running[service] = append(u.running[service], p)
	}
	return u
}

func (u *upgrade) pick() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.gateways[rand.IntN(gateways)]
}

// rotate replaces the tokens of the rotated services and the pepper, in three steps: accept the new
// ones, use them, and remove the old tokens.
func (u *upgrade) rotate(round int) {
	rotated, callers := []string{peer.Authquota}, []string{peer.Gateway}
	if campaign > 0 {
		rotated, callers = []string{peer.Catalog, peer.History, peer.Authquota},
			[]string{peer.Gateway, peer.Catalog, peer.History}
	}
	suffixOf := func(suffix string) func(string) []string {
		return func(called string) []string {
			if slices.Contains(rotated, called) {
				return []string{suffix}
			}
			return []string{""}
		}
	}
	old, next := u.suffix, fmt.Sprintf("-%d", round)
	both := func(called string) []string { return append(suffixOf(old)(called), suffixOf(next)(called)...) }
	newest, peppers := fmt.Sprintf("%064x", round+1), u.peppers
	u.peppers = append(slices.Clone(peppers), newest)
	u.replace(rotated, suffixOf(old), both)
	u.suffix = next
	u.replace(callers, suffixOf(next), both)
	u.peppers = append([]string{newest}, peppers...)
	u.replace(append(rotated, peer.Gateway), suffixOf(next), suffixOf(next))
}

// replace replaces every process of the services by one with the peppers, and tokens that have the
// suffixes for a called service. It stops each old process when the new one is ready.
func (u *upgrade) replace(services []string, sent, accepted func(called string) []string) {
	u.t.Helper()
	var leaving []*process
	for _, service := range services {
		u.changed[service] = append(tokens(service, sent, accepted),
			"OPPORTUNITY_KEY_PEPPERS="+strings.Join(u.peppers, ","))
		for i, old := range u.running[service] {
			u.running[service][i] = u.start(service, i)
			require.NoError(u.t, old.cmd.Process.Signal(syscall.SIGTERM))
			leaving = append(leaving, old)
			u.replaced++
		}
	}
	for _, old := range leaving {
		require.Zero(u.t, old.wait(u.t), old.name)
	}
	u.lasts(time.Hour)
}

// start starts the i-th process of a service, waits until it is ready, and sends requests to it.
func (u *upgrade) start(service string, i int) *process {
	u.t.Helper()
	listen, operations, admin := storetest.FreeAddress(u.t), storetest.FreeAddress(u.t), storetest.FreeAddress(u.t)
	env := slices.Concat(u.settings[service], u.changed[service], []string{"OPPORTUNITY_LISTEN=" + listen,
		"OPPORTUNITY_OPERATIONS_LISTEN=" + operations, "OPPORTUNITY_ADMIN_LISTEN=" + admin})
	if service == peer.Gateway {
		env = append(env, u.clockSettings(i)...)
	}
	p := start(u.t, env, u.program(u.t, service), "serve")
	ready(u.t, "http://"+operations+"/readyz", p)
	if service != peer.Gateway {
		u.relays[service].Replace(listen)
		return p
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.gateways[i] = "http://" + listen
	u.own[u.gateways[i]] = u.clocks[i]
	if i == 0 {
		u.url, u.adminURL = u.gateways[i], "http://"+admin
	}
	return p
}

// endingKeys issues keys of accounts whose paid periods end at intervals. The clock that is ahead
// reaches some ends half a minute before the right clock.
func (u *upgrade) endingKeys() (keys []issued) {
	half := max(5, min(campaign, 30)/2)
	for range 2 * half {
		keys = append(keys, u.issue(u.t, api.Free))
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	for i, key := range keys {
		u.ends[key.Account] = now.Add(time.Duration(3+i%half*2+i/half*30) * time.Second)
		u.pay(key.Account, u.ends[key.Account])
	}
	return keys
}

// lasts issues a key of an account whose paid period does not end before the test does.
func (u *upgrade) lasts(d time.Duration) issued {
	u.t.Helper()
	key := u.issue(u.t, api.Free)
	u.pay(key.Account, time.Now().UTC().Truncate(time.Microsecond).Add(d))
	u.granted = append(u.granted, key)
	return key
}

func (u *upgrade) pay(account string, until time.Time) {
	u.t.Helper()
	u.version++
	body, err := json.Marshal(api.Entitlement{Tier: api.Commercial, PaidUntil: &until, Version: u.version})
	require.NoError(u.t, err)
	resp, err := try(u.t.Context(), "http://"+u.relays[peer.Authquota].Address, call{
		method: http.MethodPut, path: "/internal/v1/entitlements/" + account, body: bytes.NewReader(body),
		key:    tokenBetween(peer.Billing, peer.Authquota) + u.suffix,
		header: map[string]string{"Content-Type": "application/json"},
	})
	require.NoError(u.t, err)
	require.Less(u.t, resp.StatusCode, 300, "%s", resp.body)
}

// want returns the status that is due to a call with a key whose paid period ends by the clock of
// the gateway, or 0 within a second of the end.
func (u *upgrade) want(c sent) int {
	end, own := u.ends[c.account], u.own[c.gateway]
	switch {
	case c.to.Add(own).Before(end):
		return http.StatusOK
	case !c.from.Add(own).Before(end.Add(time.Second)):
		return http.StatusPaymentRequired
	}
	return 0
}

func (u *upgrade) has() {
	u.t.Helper()
	for _, gateway := range u.gateways {
		for _, key := range u.granted {
			a := get(u.t, gateway, key.Key, historyPath)
			require.Equal(u.t, http.StatusOK, a.StatusCode, "%s", a.body)
		}
	}
}
