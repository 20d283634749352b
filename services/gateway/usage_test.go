package gateway_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/gateway"
)

// Each call of an existing key is sent once with its outcome. Calls of unknown keys are not sent.
func TestEachCallIsSentOnce(t *testing.T) {
	w := newEnvironment(t)
	gw, end := w.startAndStop()
	past := time.Now().Add(-time.Second)
	good := w.authquota.issue("acc_good", developer)
	expired := w.authquota.issue("acc_expired", developer, func(p *api.Principal) { p.ExpiresAt = past })
	revoked := w.authquota.issue("acc_revoked", developer, func(p *api.Principal) { p.RevokedAt = &past })
	suspended := w.authquota.issue("acc_suspended", developer, func(p *api.Principal) { p.Suspended = true })
	minute := w.authquota.issue("acc_minute", api.Limits{PerMinute: 1, PerDay: 9})
	daily := w.authquota.issue("acc_daily", api.Limits{PerMinute: 9, PerDay: 1})

	const errorBody = `{"error":{"code":"invalid_parameter","message":"no"}}`
	for status, calls := range map[int]int{200: 3, 304: 1, 404: 2, 400: 2, 402: 1, 500: 1, 503: 1, 302: 1} {
		w.catalog.respondWith(respond(status, errorBody))
		for range calls {
			gw.get(t, good)
		}
	}
	w.catalog.respondWith(nil)
	gw.do(t, request{key: good, method: http.MethodHead})
	gw.do(t, request{key: good, body: strings.NewReader("x")})
	gw.do(t, request{key: good, method: http.MethodPost})                         // not a call: wrong method
	gw.do(t, request{key: good, method: http.MethodOptions})                      // not a call
	gw.do(t, request{key: good, path: "/nowhere"})                                // not a call: unknown path
	gw.do(t, request{header: http.Header{"Authorization": {"Bearer malformed"}}}) // malformed key
	gw.do(t, request{key: apikey.Generate(apikey.Live)})                          // unknown key
	for _, key := range []apikey.Key{expired, revoked, suspended, minute, minute, daily, daily, daily} {
		gw.get(t, key)
	}
	w.catalog.respondWith(truncated)
	_, err := gw.try(request{key: good})
	require.Error(t, err)
	end()

	require.Equal(t, map[api.CallOutcome]int{
		api.CallServed: 5, api.CallNotFound: 2, api.CallBadRequest: 3, api.CallSubscriptionRequired: 1, api.CallFailed: 4,
	}, w.authquota.usageOf("key_acc_good"))
	for key, outcomes := range map[string]map[api.CallOutcome]int{
		"key_acc_expired": {api.CallExpiredAPIKey: 1}, "key_acc_revoked": {api.CallRevokedAPIKey: 1},
		"key_acc_suspended": {api.CallAccountSuspended: 1},
		"key_acc_minute":    {api.CallServed: 1, api.CallMinuteLimitReached: 1},
		"key_acc_daily":     {api.CallServed: 1, api.CallDailyLimitReached: 2},
	} {
		require.Equal(t, outcomes, w.authquota.usageOf(key), key)
	}
	charged, _ := w.charged("acc_good")
	require.Equal(t, 5+2, charged, "charged calls in Redis and in the usage batches")
}

// Shutdown sends the calls since the last flush and those in flight.
func TestShutdownSendsRemainingUsage(t *testing.T) {
	w := newEnvironment(t)
	gw, end := w.startAndStop()
	key := w.authquota.issue("acc_a", developer)
	require.Equal(t, 200, gw.get(t, key).status)
	arrived, release := make(chan struct{}), make(chan struct{})
	w.catalog.respondWith(func(rw http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-release
		respond(200, `{}`)(rw, r)
	})
	answered := make(chan int)
	go func() {
		a, _ := gw.try(request{key: key})
		answered <- a.status
	}()
	<-arrived
	stopped := make(chan struct{})
	go func() { end(); close(stopped) }()
	storetest.Eventually(t, "the listener is closed",
		func() bool { _, err := gw.try(request{path: "/docs"}); return err != nil })
	close(release)
	require.Equal(t, 200, <-answered)
	<-stopped
	require.Equal(t, map[api.CallOutcome]int{api.CallServed: 2}, w.authquota.usageOf("key_acc_a"))
}

// Keys of an older form are rejected unless the form is set, and then looked up by hash.
func TestOlderKeys(t *testing.T) {
	w := newEnvironment(t)
	without, with := w.start(), w.start(func(cfg *gateway.Config) { cfg.OlderKeys = `sk-[a-z]{4}-[0-9]{4,8}` })
	w.authquota.add(apikey.OlderOf("sk-acme-0001").Digests([][]byte{pepper})[0], &api.Principal{
		Key: "key_old", Account: "acc_old", Tier: api.Developer, Limits: developer, ExpiresAt: time.Now().Add(time.Hour),
	})
	old := request{header: http.Header{"Authorization": {"Bearer sk-acme-0001"}}}
	require.Equal(t, "invalid_api_key", without.do(t, old).code(t))
	require.Zero(t, w.authquota.lookupCount())
	require.Equal(t, 200, with.do(t, old).status)
	require.NotContains(t, w.log.String(), "sk-acme")
}
