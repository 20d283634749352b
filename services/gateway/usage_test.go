package gateway_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/gateway"
)

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
