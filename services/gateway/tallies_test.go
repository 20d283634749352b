package gateway_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/gateway"
)

// Each call of a key that somebody holds is told once, by how it ended; what nobody holds is not told of.
func TestEachCallIsToldOnce(t *testing.T) {
	w := newWorld(t)
	gw, end := w.startAndStop()
	past := time.Now().Add(-time.Second)
	good := w.authority.issue("acc_good", developer)
	expired := w.authority.issue("acc_expired", developer, func(p *api.Principal) { p.ExpiresAt = past })
	revoked := w.authority.issue("acc_revoked", developer, func(p *api.Principal) { p.RevokedAt = &past })
	suspended := w.authority.issue("acc_suspended", developer, func(p *api.Principal) { p.Suspended = true })
	hasty := w.authority.issue("acc_hasty", api.Limits{PerMinute: 1, PerDay: 9})
	busy := w.authority.issue("acc_busy", api.Limits{PerMinute: 9, PerDay: 1})

	const refusal = `{"error":{"code":"invalid_parameter","message":"no"}}`
	for status, calls := range map[int]int{200: 3, 304: 1, 404: 2, 400: 2, 402: 1, 500: 1, 503: 1, 302: 1} {
		w.catalog.will(says(status, refusal))
		for range calls {
			gw.get(t, good)
		}
	}
	w.catalog.will(nil)
	gw.do(t, request{key: good, method: http.MethodHead})
	gw.do(t, request{key: good, body: strings.NewReader("x")})
	gw.do(t, request{key: good, method: http.MethodPost})                      // no call: the address does not take it
	gw.do(t, request{key: good, method: http.MethodOptions})                   // nor is this
	gw.do(t, request{key: good, path: "/nowhere"})                             // nor this
	gw.do(t, request{header: http.Header{"Authorization": {"Bearer nobody"}}}) // nobody's
	gw.do(t, request{key: apikey.Generate(apikey.Live)})                       // nor is this anybody's
	for _, key := range []apikey.Key{expired, revoked, suspended, hasty, hasty, busy, busy, busy} {
		gw.get(t, key)
	}
	w.catalog.will(func(rw http.ResponseWriter, _ *http.Request) { // ends early
		rw.Header().Set("Content-Type", "application/json")
		rw.Header().Set("Content-Length", "100000")
		_, _ = io.WriteString(rw, strings.Repeat(" ", 50000))
		panic(http.ErrAbortHandler)
	})
	_, err := gw.try(request{key: good})
	require.Error(t, err)
	end()

	require.Equal(t, map[api.CallOutcome]int{
		api.CallServed: 5, api.CallNotFound: 2, api.CallBadRequest: 3, api.CallSubscriptionRequired: 1, api.CallFailed: 4,
	}, w.authority.told("key_acc_good"))
	for key, outcomes := range map[string]map[api.CallOutcome]int{
		"key_acc_expired": {api.CallExpiredAPIKey: 1}, "key_acc_revoked": {api.CallRevokedAPIKey: 1}, "key_acc_suspended": {api.CallAccountSuspended: 1},
		"key_acc_hasty": {api.CallServed: 1, api.CallMinuteLimitReached: 1}, "key_acc_busy": {api.CallServed: 1, api.CallDailyLimitReached: 2},
	} {
		require.Equal(t, outcomes, w.authority.told(key), key)
	}
	require.Len(t, w.authority.tallied, 5+3+4)
	charged, _ := w.used("acc_good")
	require.Equal(t, 5+2, charged, "what is told as charged is what was charged")
}

// What belongs to which day is as the counters have it.
func TestTalliesAreOfTheDayThatIsCharged(t *testing.T) {
	w, c := newWorld(t), newClock()
	c.nanos.Store(time.Now().UTC().Truncate(24 * time.Hour).Add(24*time.Hour - time.Second).UnixNano())
	gw, end := w.startAndStop(c.config)
	key := w.authority.issue("acc_a", developer, func(p *api.Principal) { p.ExpiresAt = c.now().Add(48 * time.Hour) })
	today := counter.DayOf(c.now())
	require.Equal(t, 200, gw.get(t, key).status)
	c.advance(time.Second)
	require.Equal(t, 200, gw.get(t, key).status)
	end()
	require.Equal(t, map[tallied]int{
		{today, "key_acc_a", api.CallServed}: 1, {counter.DayOf(c.now()), "key_acc_a", api.CallServed}: 1,
	}, w.authority.tallied)
}

// authquota away, and one whose answers are lost: calls go on, and each is counted once when it is back.
func TestTalliesWaitForAuthquota(t *testing.T) {
	w := newWorld(t)
	gw := w.start()
	key := w.authority.issue("acc_a", developer)
	require.Equal(t, 200, gw.get(t, key).status)
	w.authority.set(func() { w.authority.deaf = true })
	repeated := func() bool {
		w.authority.mu.Lock()
		defer w.authority.mu.Unlock()
		for _, times := range w.authority.batches {
			if times > 1 {
				return true
			}
		}
		return false
	}
	storetest.Eventually(t, "a batch is sent again", repeated)
	w.authority.set(func() { w.authority.down = true })
	for range 5 {
		require.Equal(t, 200, gw.get(t, key).status)
	}
	require.Contains(t, w.metrics(), "gateway_tallied_calls_pending 6")
	w.authority.set(func() { w.authority.deaf, w.authority.down = false, false })
	storetest.Eventually(t, "all is told", func() bool { return w.authority.told("key_acc_a")[api.CallServed] == 6 })
	storetest.Eventually(t, "nothing is pending", func() bool { return strings.Contains(w.metrics(), "gateway_tallied_calls_pending 0") })
	require.Contains(t, w.metrics(), "gateway_tallied_calls_lost_total 0")
	require.Equal(t, 1, strings.Count(w.log.String(), "usage batch failed, will retry"))
}

// A stop loses nothing: not what was noted since the last second, nor the calls that it waits for.
func TestAStopTellsTheRest(t *testing.T) {
	w := newWorld(t)
	gw, end := w.startAndStop()
	key := w.authority.issue("acc_a", developer)
	require.Equal(t, 200, gw.get(t, key).status)
	arrived, release := make(chan struct{}), make(chan struct{})
	w.catalog.will(func(rw http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-release
		says(200, `{}`)(rw, r)
	})
	answered := make(chan int)
	go func() {
		a, _ := gw.try(request{key: key})
		answered <- a.status
	}()
	<-arrived
	stopped := make(chan struct{})
	go func() { end(); close(stopped) }()
	storetest.Eventually(t, "it takes no more requests", func() bool { _, err := gw.try(request{path: "/docs"}); return err != nil })
	close(release)
	require.Equal(t, 200, <-answered)
	<-stopped
	require.Equal(t, map[api.CallOutcome]int{api.CallServed: 2}, w.authority.told("key_acc_a"))
}

// A caller that leaves before its answer is there is told of as one whose call failed, once.
func TestACallerThatLeavesIsToldOf(t *testing.T) {
	w := newWorld(t)
	gw, end := w.startAndStop()
	key := w.authority.issue("acc_a", developer)
	arrived := make(chan struct{})
	w.catalog.will(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	})
	ctx, leave := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, gw.url+"/api/jobs", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+key.Reveal())
	go func() {
		<-arrived
		leave()
	}()
	_, err = client.Do(req)
	require.ErrorIs(t, err, context.Canceled)
	end()
	require.Equal(t, map[api.CallOutcome]int{api.CallFailed: 1}, w.authority.told("key_acc_a"))
}

// Keys of another form, issued by something else: none unless a form is set, then by hash.
func TestOlderKeys(t *testing.T) {
	w := newWorld(t)
	without, with := w.start(), w.start(func(cfg *gateway.Config) { cfg.OlderKeys = `sk-[a-z]{4}-[0-9]{4,8}` })
	w.authority.add(apikey.OlderOf("sk-acme-0001").Digests([][]byte{pepper})[0], &api.Principal{
		Key: "key_old", Account: "acc_old", Tier: api.Developer, Limits: developer, ExpiresAt: time.Now().Add(time.Hour),
	})
	sends := func(token string) request { return request{header: http.Header{"Authorization": {"Bearer " + token}}} }
	require.Equal(t, "invalid_api_key", without.do(t, sends("sk-acme-0001")).code(t))
	for _, malformed := range []string{"xsk-acme-0001", "sk-acme-0001x", "sk-acme-1", "oda_live_nonsense"} {
		require.Equal(t, "invalid_api_key", with.do(t, sends(malformed)).code(t), malformed)
	}
	require.Zero(t, w.authority.asked(), "malformed ones are not looked up")
	for range 2 {
		require.Equal(t, 200, with.do(t, sends("sk-acme-0001")).status)
	}
	require.Equal(t, 1, w.authority.asked())
	require.Equal(t, 200, with.get(t, w.authority.issue("acc_a", developer)).status, "our own keys as ever")
	require.Equal(t, "invalid_api_key", with.do(t, sends("sk-none-0001")).code(t))
	require.NotContains(t, w.log.String(), "sk-acme")
}
