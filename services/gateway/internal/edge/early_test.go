package edge

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/storetest/redistest"
	"opportunity.internal/services/gateway/internal/authn"
	"opportunity.internal/services/gateway/internal/proxy"
)

// earlyCalls is an Edge in front of a catalog, for calls of one key.
type earlyCalls struct {
	Edge

	redis    *redistest.Server
	counters *redis.Client
	key      string
	tier     api.Tier // of the account in authquota, as epoch
	epoch    int64
	callers  []string // that the catalog was sent, by request
	onCall   func()   // runs in the catalog before it responds
}

// newEarlyCalls returns an Edge that has admitted one of ten calls.
func newEarlyCalls(t *testing.T) *earlyCalls {
	direct := peer.NewDirect(peer.Transport(nil))
	t.Cleanup(direct.CloseIdleConnections)
	return newEarlyCallsVia(t, direct)
}

func newEarlyCallsVia(t *testing.T, via http.RoundTripper) *earlyCalls {
	c := &earlyCalls{Edge: newEdge(t), key: "Bearer " + apikey.Generate(apikey.Live).Reveal(), tier: api.Free, epoch: 1, onCall: func() {}}
	c.redis = c.admits(t, func() api.Principal {
		p := principal()
		p.Tier, p.Epoch = c.tier, c.epoch
		return p
	}, func() {})
	c.counters = c.redis.Client()
	catalog := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.callers = append(c.callers, r.Header.Get(api.CallerHeader))
		c.onCall()
		w.Header().Set("Content-Type", jsonType)
		_, _ = io.WriteString(w, `{"data":[]}`)
	}))
	t.Cleanup(catalog.Close)
	var err error
	c.Catalog, err = proxy.New("catalog", catalog.URL, "token", via)
	require.NoError(t, err)
	c.meters, c.bodies = newMeters(c.Telemetry.Registry), newBodies()
	require.Equal(t, http.StatusOK, c.get(t).Code)
	require.Len(t, c.callers, 1)
	return c
}

func (c *earlyCalls) get(t *testing.T) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/opportunities", nil)
	r.Header.Set("Authorization", c.key)
	w := httptest.NewRecorder()
	c.observed(w, r, c.serve)
	return w
}

// principal returns the cached principal of the key.
func (c *earlyCalls) principal(t *testing.T) *authn.Principal {
	key, err := authn.Read([]string{c.key}, apikey.OlderForm{})
	require.NoError(t, err)
	p, err := c.Keys.Resolve(t.Context(), key, netip.Addr{})
	require.NoError(t, err)
	return p
}

func (c *earlyCalls) used(t *testing.T) string {
	return c.counters.HGet(t.Context(), counter.Day(counter.DayOf(time.Now())), "acc_a").Val()
}

// during runs change in the catalog while it works on the next call. Redis does not decide on the call before that.
func (c *earlyCalls) during(t *testing.T, change func()) {
	changed := make(chan struct{})
	c.onCall = func() {
		c.onCall = func() {}
		change()
		close(changed)
	}
	held := c.redis.Client()
	held.AddHook(holding(changed))
	c.limits(t, held, func() {})
}

// disconnect makes Redis unavailable to the limiter.
func (c *earlyCalls) disconnect(t *testing.T) {
	closed := c.redis.Client()
	require.NoError(t, closed.Close())
	c.limits(t, closed, func() {})
}

// holding is a hook of a client that sends no command before the channel is closed.
type holding <-chan struct{}

func (holding) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h holding) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { <-h; return next(ctx, cmd) }
}
func (holding) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// The catalog is called although Redis does not reply before that.
func TestServiceWorksWhileTheLimiterDecides(t *testing.T) {
	c := newEarlyCalls(t)
	c.during(t, func() {})
	w := c.get(t)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.JSONEq(t, `{"data":[]}`, w.Body.String())
	require.Equal(t, "8", remaining(w))
	require.Equal(t, "2", c.used(t))
	require.Len(t, c.callers, 2)
}

// Another gateway uses up the limit just then. Later calls of the account do not reach the catalog.
func TestEarlyResponseOfARejectedCallIsDiscarded(t *testing.T) {
	c := newEarlyCalls(t)
	c.during(t, func() {
		require.NoError(t, c.counters.HSet(t.Context(), counter.Day(counter.DayOf(time.Now())), "acc_a", 10).Err())
	})
	for range 2 {
		w := c.get(t)
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		require.Contains(t, w.Body.String(), "daily_limit_reached")
		require.Equal(t, "0", remaining(w))
		require.Equal(t, "10", c.used(t))
		require.Len(t, c.callers, 2)
	}
}

// The account gets another tier just then. The response for the old one is not used.
func TestEarlyResponseForAnOutdatedPrincipalIsDiscarded(t *testing.T) {
	c := newEarlyCalls(t)
	c.during(t, func() {
		c.tier, c.epoch = api.Commercial, 2
		require.NoError(t, c.counters.HSet(t.Context(), counter.Epochs, "acc_a", 2).Err())
	})
	require.Equal(t, http.StatusOK, c.get(t).Code)
	require.Equal(t, "2", c.used(t))
	require.Len(t, c.callers, 3)
	require.Contains(t, c.callers[1], api.Free)
	require.Contains(t, c.callers[2], api.Commercial)
}

func TestOnlyCallsWithAmpleRoomReachTheServiceEarly(t *testing.T) {
	c := newEarlyCalls(t)
	for range 7 {
		require.Equal(t, http.StatusOK, c.get(t).Code)
	}
	require.Equal(t, "8", c.used(t))
	c.disconnect(t)
	require.Equal(t, http.StatusServiceUnavailable, c.get(t).Code)
	require.Len(t, c.callers, 8, "8 of 10 calls are used")
}

// An outage of Redis does not cause load on the catalog: it gets the first of the failed calls at most.
func TestFailedDecisionEndsEarlyRequests(t *testing.T) {
	c := newEarlyCalls(t)
	require.Equal(t, http.StatusOK, c.get(t).Code)
	require.True(t, c.principal(t).Ample.Load())
	c.disconnect(t)
	require.Equal(t, http.StatusServiceUnavailable, c.get(t).Code)
	require.False(t, c.principal(t).Ample.Load())
}

func TestLimiterDecidesAfterTheResponseOfAnotherTransport(t *testing.T) {
	c := newEarlyCallsVia(t, http.DefaultTransport)
	require.Equal(t, http.StatusOK, c.get(t).Code)
	require.Equal(t, "2", c.used(t))
	require.NoError(t, c.counters.HSet(t.Context(), counter.Day(counter.DayOf(time.Now())), "acc_a", 10).Err())
	w := c.get(t)
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.Contains(t, w.Body.String(), "daily_limit_reached")
	require.NotContains(t, w.Body.String(), `{"data":[]}`)
}

// remaining returns the header X-RateLimit-Remaining, whose name is sent in this form instead of the canonical one.
func remaining(w *httptest.ResponseRecorder) string {
	const name = "X-RateLimit-Remaining"
	for header, values := range w.Header() {
		if header == name {
			return values[0]
		}
	}
	return ""
}
