package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
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
	ends := []caller{{kind: "ends", path: historyPath, keys: u.endingKeys()},
		{kind: "lasts", path: historyPath, keys: []issued{u.lasts(time.Hour)}}}
	u.payUntilEnds()
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

// upgrade is a rolling upgrade of a stack, behind a load balancer that sends requests to the
// gateways that are ready.
type upgrade struct {
	*stack

	t        *testing.T
	changed  map[string][]string // settings by service
	suffix   map[string]string   // of the tokens of a called service
	peppers  []string
	running  map[string][]*process // by service
	leaving  []*process
	replaced int

	own       map[string]time.Duration // clock of each gateway minus the right one, by address
	mu        sync.Mutex
	probed    map[string]string // operations addresses of all gateways, by address
	reachable []string          // addresses of the gateways that are ready

	endings []issued
	ends    map[string]time.Time // of paid periods, by account
	granted []issued             // with a paid period that lasts
	version int64                // of the latest entitlement
}

func newUpgrade(t *testing.T, s *stack) *upgrade {
	t.Helper()
	u := &upgrade{
		stack: s, t: t, changed: map[string][]string{}, suffix: map[string]string{}, peppers: []string{pepper},
		running: map[string][]*process{},
		own:     map[string]time.Duration{}, probed: map[string]string{}, reachable: slices.Clone(s.gateways),
		ends: map[string]time.Time{},
	}
	for i, gateway := range s.gateways {
		u.own[gateway] = s.clocks[i]
		u.probed[gateway] = s.operations[len(s.operations)-gateways+i]
	}
	for _, p := range s.processes {
		service, _, _ := strings.Cut(p.name, " ")
		u.running[service] = append(u.running[service], p)
	}
	go u.balance(t.Context())
	return u
}

// balance probes the gateways until ctx ends.
func (u *upgrade) balance(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		u.mu.Lock()
		probed := maps.Clone(u.probed)
		u.mu.Unlock()
		var good []string
		for address, operations := range probed {
			if resp, err := try(ctx, operations, call{path: "/readyz"}); err == nil && resp.StatusCode == http.StatusOK {
				good = append(good, address)
			}
		}
		u.mu.Lock()
		u.reachable = good
		u.mu.Unlock()
		<-tick.C
	}
}

// pick returns the address of a ready gateway.
func (u *upgrade) pick() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.reachable[rand.IntN(len(u.reachable))]
}

// rotate replaces the tokens of the rotated services and the pepper, in three steps: accept the new
// ones, use them, and remove the old tokens.
func (u *upgrade) rotate(round int) {
	rotated, callers := []string{peer.Authquota}, []string{peer.Gateway}
	if campaign > 0 {
		rotated, callers = []string{peer.Catalog, peer.History, peer.Authquota},
			[]string{peer.Gateway, peer.Catalog, peer.History}
	}
	old, suffix, newest := u.peppers, fmt.Sprintf("-%d", round), fmt.Sprintf("%064x", round+1)
	u.peppers = append(slices.Clone(old), newest)
	u.set(peer.Authquota, u.pepperSetting())
	for _, called := range rotated {
		u.set(called, accepted(called, u.suffix[called], suffix))
	}
	u.replace(rotated)
	u.lasts(time.Hour)

	u.set(peer.Gateway, u.pepperSetting())
	for _, called := range rotated {
		u.suffix[called] = suffix
	}
	for _, caller := range callers {
		u.set(caller, u.sends(caller))
	}
	u.replace(callers)
	u.lasts(time.Hour)

	u.peppers = append([]string{newest}, old...)
	u.set(peer.Authquota, u.pepperSetting())
	u.set(peer.Gateway, u.pepperSetting())
	for _, called := range rotated {
		u.set(called, accepted(called, suffix))
	}
	u.replace(append(rotated, peer.Gateway))
	u.lasts(time.Hour)
}

func (u *upgrade) set(service, setting string) {
	u.changed[service] = append(u.changed[service], setting)
}

func (u *upgrade) pepperSetting() string {
	return "OPPORTUNITY_KEY_PEPPERS=" + strings.Join(u.peppers, ",")
}

// sends returns the setting of a service with the tokens that it sends.
func (u *upgrade) sends(caller string) string {
	var all []string
	for _, called := range []string{peer.Catalog, peer.History, peer.Authquota} {
		all = append(all, called+":"+tokenBetween(caller, called)+u.suffix[called])
	}
	return "OPPORTUNITY_PEER_TOKENS=" + strings.Join(all, ",")
}

// accepted returns the setting of a service with the tokens that it accepts.
func accepted(called string, suffixes ...string) string {
	var all []string
	for _, caller := range peer.CallersOf(called) {
		for _, suffix := range suffixes {
			all = append(all, caller+":"+tokenBetween(caller, called)+suffix)
		}
	}
	return "OPPORTUNITY_CALLER_TOKENS=" + strings.Join(all, ",")
}

// replace replaces every process of the services. It stops each old process when the new one is
// ready.
func (u *upgrade) replace(services []string) {
	u.t.Helper()
	for _, service := range services {
		for i, old := range u.running[service] {
			u.running[service][i] = u.start(service, i)
			require.NoError(u.t, old.cmd.Process.Signal(syscall.SIGTERM))
			u.leaving = append(u.leaving, old)
			u.replaced++
		}
	}
	for _, old := range u.leaving {
		require.Zero(u.t, old.wait(u.t), old.name)
	}
	u.leaving = nil
}

// start starts the i-th process of a service, waits until it is ready, and sends requests to it.
func (u *upgrade) start(service string, i int) *process {
	u.t.Helper()
	listen, operations, admin := storetest.FreeAddress(u.t), storetest.FreeAddress(u.t), storetest.FreeAddress(u.t)
	env := slices.Concat(u.settings[service], u.changed[service],
		[]string{"OPPORTUNITY_LISTEN=" + listen, "OPPORTUNITY_OPERATIONS_LISTEN=" + operations})
	if service != peer.Gateway {
		p := start(u.t, env, u.program(u.t, service), "serve")
		ready(u.t, "http://"+operations+"/readyz", p)
		u.relays[service].Replace(listen)
		return p
	}
	p := start(u.t, slices.Concat(env, []string{"OPPORTUNITY_ADMIN_LISTEN=" + admin}, u.clockSettings(i)),
		u.program(u.t, service), "serve")
	ready(u.t, "http://"+operations+"/readyz", p)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.gateways[i] = "http://" + listen
	u.own[u.gateways[i]] = u.clocks[i]
	u.probed[u.gateways[i]] = "http://" + operations
	if i == 0 {
		u.url, u.adminURL = u.gateways[i], "http://"+admin
	}
	return p
}

// endingKeys issues keys of accounts whose paid periods will end.
func (u *upgrade) endingKeys() []issued {
	for range max(10, min(campaign, 30)) {
		u.endings = append(u.endings, u.issue(u.t, api.Free))
	}
	return u.endings
}

// payUntilEnds starts paid periods that end at intervals. The clock that is ahead reaches some ends
// half a minute before the right clock.
func (u *upgrade) payUntilEnds() {
	now := time.Now().UTC().Truncate(time.Microsecond)
	for i, key := range u.endings {
		u.ends[key.Account] = now.Add(time.Duration(3+i%(len(u.endings)/2)*2+i/(len(u.endings)/2)*30) * time.Second)
		u.pay(key.Account, u.ends[key.Account])
	}
}

// lasts issues a key of an account whose paid period does not end before the test does.
func (u *upgrade) lasts(d time.Duration) issued {
	u.t.Helper()
	key := u.issue(u.t, api.Free)
	u.pay(key.Account, time.Now().UTC().Truncate(time.Microsecond).Add(d))
	u.granted = append(u.granted, key)
	return key
}

// pay sends authquota a paid period of an account, as billing does.
func (u *upgrade) pay(account string, until time.Time) {
	u.t.Helper()
	u.version++
	body, err := json.Marshal(api.Entitlement{Tier: api.Commercial, PaidUntil: &until, Version: u.version})
	require.NoError(u.t, err)
	resp, err := try(u.t.Context(), "http://"+u.relays[peer.Authquota].Address, call{
		method: http.MethodPut, path: "/internal/v1/entitlements/" + account, body: bytes.NewReader(body),
		key:    tokenBetween(peer.Billing, peer.Authquota) + u.suffix[peer.Authquota],
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

// has checks that no account lost what it has.
func (u *upgrade) has() {
	u.t.Helper()
	for _, gateway := range u.gateways {
		for _, key := range u.granted {
			a := get(u.t, gateway, key.Key, historyPath)
			require.Equal(u.t, http.StatusOK, a.StatusCode, "%s", a.body)
		}
	}
}
