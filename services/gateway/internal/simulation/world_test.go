package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/telemetry"
)

// world is a run of a plan.
type world struct {
	plan
	*testing.T
	net       *network
	store     *store
	authquota *authquota
	ahead     [gateways]atomic.Int64      // clocks
	operators [accounts + 1]chan struct{} // one at a time changes an account

	mu       sync.Mutex
	gateways [gateways]*gateway
	rotated  map[string]bool // keys whose successor is known
	events   []*event
	counters map[field]int // in the end
}

// event is a call or a command with its result, as its sender sees it.
type event struct {
	action

	id         int
	keyID      string
	start, end time.Time
	unknown    bool // no result: the process was killed, or the operator gave up
	first      bool // the gateway did not know the Redis clock yet
	status     int  // 0: the response ended early
	code       string
	limit      int // X-RateLimit headers; 0: none
	remaining  int
	day        string
}

func (e *event) String() string {
	result := fmt.Sprint(e.status, " ", e.code)
	switch {
	case e.unknown:
		result = "unknown"
	case e.kind != "call":
		result = "done"
	case e.limit > 0:
		result += fmt.Sprintf(" %d of %d remain on %s", e.remaining, e.limit, e.day)
	}
	const clock = "15:04:05.000000"
	return fmt.Sprintf("%s %s %v, key %s -> %s", e.start.Format(clock), e.end.Format(clock), e.action, e.keyID, result)
}

var runs int // of this process

// simulate runs a plan.
func simulate(t *testing.T, p plan, planted bug) *world {
	t.Helper()
	if runs++; runs%16 == 0 {
		runtime.GC()
	}
	w := &world{plan: p, rotated: map[string]bool{}}
	synctest.Test(t, func(t *testing.T) {
		w.T = t
		time.Sleep(p.start)
		w.net = &network{seed: p.seed, noise: p.noise, calm: true, sent: map[string]int{}}
		w.store = newStore(w.net, planted)
		w.authquota = &authquota{
			net: w.net, store: w.store, bug: planted,
			accounts: map[string]*account{}, keys: map[string]*key{}, batches: map[string]bool{}, usage: map[calls]int{},
		}
		ctx, stop := context.WithCancel(t.Context())
		w.begin(ctx)
		var all sync.WaitGroup
		for _, a := range p.actions {
			all.Go(func() {
				time.Sleep(a.at)
				w.do(ctx, a)
			})
		}
		all.Wait()
		w.finish(ctx)
		stop()
		time.Sleep(time.Second) // for messages that are still under way
		require.NoError(t, w.authquota.redis.Close())
		w.store.primary.Close()
	})
	return w
}

// begin starts all processes and lets each gateway make a call of an account of its own, so that it
// knows the Redis clock.
func (w *world) begin(ctx context.Context) {
	end := time.Now().Add(warmUp)
	tel, err := telemetry.Start(ctx, "authquota", telemetry.Config{LogOutput: io.Discard})
	require.NoError(w, err)
	w.authquota.redis, err = w.store.connect("authquota", func() bool { return true }, nil, tel)
	require.NoError(w, err)
	for i := range w.operators {
		w.operators[i] = make(chan struct{}, 1)
		w.authquota.accounts[accountID(i)] = &account{tier: i}
		for k := range keysEach {
			w.authquota.issue(keyID(i, k), accountID(i))
		}
	}
	go w.authquota.work(ctx)
	for i := range w.gateways {
		w.start(i)
		w.call(action{kind: "call", gateway: i, account: accounts, answer: "404"})
	}
	time.Sleep(time.Until(end))
	w.setCalm(false)
}

// start starts a gateway and waits for its first sync of the keys.
func (w *world) start(i int) {
	g, err := startGateway(gatewayName(i), &w.ahead[i], w.net, w.store, w.authquota)
	require.NoError(w, err)
	time.Sleep(10 * time.Millisecond)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gateways[i] = g
}

func (w *world) setCalm(calm bool) {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	w.net.calm = calm
}

func (w *world) do(ctx context.Context, a action) {
	switch a.kind {
	case "call":
		w.call(a)
	case "revoke", "rotate", "suspend", "resume", "tier":
		w.operate(ctx, a)
	default:
		w.net.disturb(a.kind, "", max(0, a.by))
		w.fail(a)
	}
}

// fail causes a fault.
func (w *world) fail(a action) {
	step := func(offset time.Duration) time.Duration { return max(-time.Hour, min(time.Hour, offset+a.by)) }
	away := func(away bool) {
		w.authquota.mu.Lock()
		defer w.authquota.mu.Unlock()
		w.authquota.away = away
	}
	switch a.kind {
	case "restart":
		w.mu.Lock()
		g := w.gateways[a.gateway]
		w.mu.Unlock()
		g.kill()
		w.start(a.gateway)
	case "copy":
		w.store.copy()
	case "swap":
		w.store.swap()
	case "redis clock":
		w.store.mu.Lock()
		defer w.store.mu.Unlock()
		w.store.primary.ahead = step(w.store.primary.ahead)
	case "gateway clock":
		w.ahead[a.gateway].Store(int64(step(time.Duration(w.ahead[a.gateway].Load()))))
	case "authquota away":
		away(true)
		time.Sleep(a.by)
		away(false)
	}
}

// record adds an event that begins now.
func (w *world) record(a action) *event {
	e := &event{action: a, id: len(w.events), keyID: keyID(a.account, a.key%keysEach), start: time.Now()}
	w.events = append(w.events, e)
	return e
}

// call makes a call. The key after the last one of the account is the successor of its first key.
func (w *world) call(a action) {
	w.mu.Lock()
	g, e := w.gateways[a.gateway], w.record(a)
	e.first = !g.decided.Load()
	if a.key == keysEach && w.rotated[e.keyID] {
		e.keyID = successor(e.keyID)
	}
	w.mu.Unlock()
	request := httptest.NewRequestWithContext(w.Context(), http.MethodGet,
		fmt.Sprint("/api/v1/opportunities?answer=", a.answer, "&id=", a.at), nil)
	request.Header.Set("Authorization", "Bearer "+tokenOf(e.keyID))
	response := httptest.NewRecorder()
	complete := serve(g.handler, response, request)
	w.mu.Lock()
	defer w.mu.Unlock()
	e.end, e.unknown = time.Now(), g.dead.Load()
	if complete {
		e.status = response.Code
	}
	var body struct{ Error struct{ Code string } }
	_ = json.Unmarshal(response.Body.Bytes(), &body) // a response without an error has no code
	e.code = body.Error.Code
	header := func(name string) (n int) {
		if v := response.Header()["X-RateLimit-"+name]; v != nil { //nolint:staticcheck // not in canonical form
			n, _ = strconv.Atoi(v[0])
		}
		return n
	}
	e.limit, e.remaining = header("Limit"), header("Remaining")
	if e.limit > 0 {
		e.day = counter.DayOf(time.Unix(int64(header("Reset"))-1, 0))
		g.decided.Store(true)
	}
}

// serve serves a request, and reports whether the response is complete.
func serve(h http.Handler, w http.ResponseWriter, r *http.Request) (complete bool) {
	defer func() {
		if cause := recover(); cause != nil && cause != http.ErrAbortHandler { //nolint:errorlint // the sentinel itself
			panic(cause)
		}
	}()
	h.ServeHTTP(w, r)
	return true
}

// operate runs the command of an operator, who repeats it until it succeeds.
func (w *world) operate(ctx context.Context, a action) {
	w.operators[a.account] <- struct{}{}
	defer func() { <-w.operators[a.account] }()
	w.mu.Lock()
	e, q := w.record(a), w.authquota
	w.mu.Unlock()
	account := accountID(a.account)
	apply := func() { // with q.mu
		switch k := q.keys[digestOf(e.keyID)]; a.kind {
		case "revoke":
			if now := time.Now(); k.revoked == nil {
				k.revoked = &now
			}
		case "rotate":
			q.issue(successor(e.keyID), account)
		case "suspend", "resume":
			q.accounts[account].suspended = a.kind == "suspend"
		case "tier":
			q.accounts[account].tier = a.key
		}
	}
	e.unknown = true
	for try := 0; try < 20 && e.unknown; try++ {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		_, err := handle(ctx, q, "operator", fmt.Sprint(a, try), func() (any, error) { return nil, q.change(account, apply) })
		cancel()
		if e.unknown = err != nil; e.unknown {
			time.Sleep(500 * time.Millisecond)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	e.end = time.Now()
	if a.kind == "rotate" && !e.unknown {
		w.rotated[e.keyID] = true
	}
}

// finish ends all faults, waits until the minute windows are empty, makes a call with each key, and
// stops the gateways.
func (w *world) finish(ctx context.Context) {
	w.setCalm(true)
	w.store.mu.Lock()
	w.store.primary.ahead = 0
	w.store.mu.Unlock()
	for i := range w.ahead {
		w.ahead[i].Store(0)
	}
	w.net.disturb("end of faults", "", 0)
	time.Sleep(61 * time.Second)
	for i := range accounts {
		for k := range keysEach {
			w.call(action{kind: "call", at: afterFaults, gateway: (i + k) % gateways, account: i, key: k, answer: "200"})
		}
	}
	for _, g := range w.gateways {
		g.stop()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		g.usage.Close(ctx)
		cancel()
		g.kill()
	}
	w.counters = w.store.counts()
}

// afterFaults is the time of the calls of finish.
const afterFaults = time.Hour
