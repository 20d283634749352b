// Package admission decides whether an account may make another call, and charges the call if so.
//
// A call counts against three limits: the account's minute, the account's UTC day and the UTC day
// of the whole service. A share of the latter limits the base tier. One Redis script checks all of
// them, and that the cached principal is current, before it charges anything. So a rejected call
// costs nothing and replicas cannot overspend together. The clock is that of Redis. A call without
// a billable response is refunded for the day and the service (Refund); its minute stays charged,
// which slows down clients that repeat failing calls.
//
// The counters of a day are created before the day starts (OpenNextDay). Missing counters, after
// data loss in Redis, are first restored by authquota from its ledger, all of them in one step.
// While Redis is unavailable, or authquota when it is needed, calls fail with 503: a guess would
// either exceed a limit or withhold a paid call.
//
// A stalled Redis still runs the commands it has received, after their callers got 503. The script
// therefore takes a deadline by the Redis clock, and charges nothing after it.
//
// A step of the Redis clock by more than maxAhead is noticed before anything is charged, because a
// gateway knows how much time has passed since the last reply. It is followed only if it brings the
// Redis clock nearer to the gateway's own clock; otherwise a correction in Redis makes the time of
// admissions continue as before.
//
// Known limits: the ledger lags Redis by about a second, so data loss in Redis forgets the charges
// of that second and all minute windows. A charge stands if its reply is lost, if its refund fails,
// or if a stalled Redis runs the first batch of a process, which does not know the Redis clock yet.
// So a call that is admitted again after a failover may count twice. A forward step of the Redis
// clock by less than maxAhead shortens the windows by as much. While the Redis clock is corrected,
// keys still expire by it: a step by more than an hour empties the windows.
package admission

import (
	"cmp"
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/singleflight"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/redisdb"
	"opportunity.internal/pkg/telemetry"
)

//go:embed admit.lua
var admitLua string

//go:embed refund.lua
var refundLua string

//go:embed open.lua
var openLua string

//go:embed clock.lua
var clockLua string

var (
	admitScript, refundScript = redis.NewScript(admitLua), redis.NewScript(refundLua)
	openScript, clockScript   = redis.NewScript(openLua), redis.NewScript(clockLua)
)

// Config holds the parts of a Limiter.
type Config struct {
	Redis    *redis.Client
	Budget   time.Duration // for one round trip, the wait for a batch included, and for one restore; 0: redisdb.Budget
	Tracer   trace.Tracer
	Log      *slog.Logger
	Capacity int // calls per UTC day for all accounts together
	// of these for the accounts of the base tier together; 0: Capacity
	BaseCap  int
	Restore  func(ctx context.Context, day string) error // returns once Redis has the counters of the day
	Now      func() time.Time                            // this process's clock
	RedisNow func() time.Time                            // replaces the Redis clock in tests; otherwise nil
}

// Limiter admits calls. It is safe for concurrent use.
type Limiter struct {
	cfg      Config
	batches  batcher
	breaker  *gobreaker.TwoStepCircuitBreaker[struct{}]
	restores singleflight.Group
	clock    *redisClock
	day      atomic.Int64 // latest day seen in a reply; a wrong one costs one more round trip
	used     atomic.Int64 // day<<32 | calls of the whole service; see Used
	ofBase   atomic.Int64 // day<<32 | calls of the base tier
	decided  atomic.Int64 // time of the latest decision, in microseconds
}

// maxAttempts bounds the round trips of one Admit.
const maxAttempts = 5

// While the breaker is open, calls fail without waiting for Redis; one call probes it ten times a
// second.
const (
	tripAfter  = 3
	probeAfter = 100 * time.Millisecond
)

// replyTime is the part of the budget reserved for the reply: a call is not charged if less time
// remains.
const replyTime = 20 * time.Millisecond

// New returns a limiter with the parts in cfg.
func New(cfg Config) *Limiter {
	cfg.BaseCap = cmp.Or(cfg.BaseCap, cfg.Capacity)
	l := &Limiter{
		cfg: cfg, clock: newRedisClock(cfg.Now),
		breaker: gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
			Timeout:     probeAfter,
			ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= tripAfter },
		}),
	}
	l.batches.send, l.batches.budget = l.send, cmp.Or(cfg.Budget, redisdb.Budget)
	l.day.Store(int64(dayOf(cfg.Now())))
	return l
}

// Admit decides on one call of the principal's account and charges it if admitted. It returns an
// error (503) when no decision could be made; nothing was charged.
//
// Admit ignores the cancellation of ctx: if the caller disconnected while the script runs, its
// charge would never be refunded. The budget of the batch bounds both the wait and the time in
// which Redis may charge.
func (l *Limiter) Admit(ctx context.Context, p api.Principal) (Decision, error) {
	ctx = context.WithoutCancel(ctx)
	for range maxAttempts { // retries follow midnight, a restore or a wrong estimate of the Redis clock
		c := call{principal: &p}
		l.decide(ctx, &c)
		if c.err != nil {
			return Decision{}, problem.Unavailable(c.err)
		}
		switch verdict, _ := c.reply[0].(string); Verdict(verdict) {
		case wrongDay:
			l.day.Store(integer(c.reply, 1))
		case missing:
			if !l.begin(ctx, c.day) {
				if err := l.restore(ctx, c.day); err != nil {
					return Decision{}, err
				}
			}
		case late: // the clock stepped: send has updated it
		case Outdated:
			return Decision{Verdict: Outdated}, nil
		default:
			return l.decode(c.reply, &p, c.day), nil
		}
	}
	return Decision{}, problem.Unavailable(fmt.Errorf("admission retried %d times: Redis clock or counters keep changing",
		maxAttempts))
}

// decide runs the admission script for a call, together with others, and stores the result in c.
// The call has a span of its own if its request is recorded: the batch has many parents.
func (l *Limiter) decide(ctx context.Context, c *call) {
	_, span := redisdb.StartSpan(ctx, l.cfg.Tracer, l.cfg.Redis, "evalsha")
	l.batches.do(c)
	telemetry.End(span, c.err)
}

// Limits of batching. With two batches in flight, Redis runs one while the reply to the other
// travels. More would only make batches smaller (BenchmarkAdmit).
const (
	maxInFlight = 2
	maxBatch    = 64 // blocks Redis for under 1 ms
)

// batcher groups concurrent calls into batches. A call still waits for one round trip, but shares
// its cost and most of the script's with the rest of the batch. A call that finds a free slot is
// sent immediately and alone.
type batcher struct {
	send   func(ctx context.Context, calls []*call)
	budget time.Duration // for the reply to a call, from do

	mu       sync.Mutex
	waiting  []*call
	inFlight int
}

// call is one call to be admitted. send sets day, reply and err.
type call struct {
	principal *api.Principal
	since     time.Time

	day   Day // argument of the script
	reply []any
	err   error

	// handoff receives the batch that this call must send, with the call itself, or nil once
	// another call has sent it. It is nil if the call did not wait.
	handoff chan []*call
}

// do sends c and waits for its reply, at most for the budget: the deadline of a batch is that of
// its oldest call. After a batch, the oldest waiting call sends the next one in its own goroutine.
func (b *batcher) do(c *call) {
	c.since = time.Now()
	b.mu.Lock()
	if b.inFlight < maxInFlight {
		b.inFlight++
		b.mu.Unlock()
		b.lead([]*call{c})
		return
	}
	c.handoff = make(chan []*call, 1)
	b.waiting = append(b.waiting, c)
	b.mu.Unlock()
	if batch := <-c.handoff; batch != nil {
		b.lead(batch)
	}
}

// lead sends a batch, which begins with the call of this goroutine, and passes the slot in flight
// on.
func (b *batcher) lead(batch []*call) {
	defer func() { // also after a panic
		for _, c := range batch[1:] {
			c.handoff <- nil
		}
		if next := b.next(); next != nil {
			next[0].handoff <- next
		}
	}()
	b.exec(batch)
}

// next removes up to maxBatch waiting calls and returns them. If none is waiting, it releases one
// slot in flight and returns nil.
func (b *batcher) next() []*call {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.waiting), maxBatch)
	if n == 0 {
		b.inFlight--
		return nil
	}
	batch := b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	return batch
}

// errExpired is the error of a call whose budget expired in the queue.
var errExpired = errors.New("admission budget expired in the queue")

// exec sends a batch, unless its budget has expired. Redis would run it for no caller, and the
// timeout would count as a failure of Redis.
func (b *batcher) exec(batch []*call) {
	deadline := batch[0].since.Add(b.budget)
	if time.Until(deadline) <= replyTime {
		for _, c := range batch {
			c.err = errExpired
		}
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	b.send(ctx, batch)
}

func (l *Limiter) send(ctx context.Context, calls []*call) {
	day := Day(l.day.Load())
	keys := make([]string, 0, 4+len(calls))
	keys = append(keys, counter.Epochs, day.key(), counter.Clock, counter.Changed(day.String()))
	args := make([]any, 0, 9+5*len(calls))
	earliest, latest := l.clock.bounds(ctx)
	args = append(args, int64(day), counter.ServiceField, counter.LatestField, l.cfg.Capacity, l.testClock(),
		earliest, latest, counter.BaseField, l.cfg.BaseCap)
	for _, c := range calls {
		keys = append(keys, counter.Window(c.principal.Account))
		args = append(args, c.principal.Account, c.principal.Epoch, c.principal.Limits.PerMinute, c.principal.Limits.PerDay,
			isBase(c.principal))
	}
	sent := l.clock.elapsed()
	replies, err := l.run(ctx, admitScript, keys, args...).Slice()
	for i, c := range calls {
		c.day, c.err = day, err
		if err == nil {
			c.reply, _ = replies[i].([]any)
		}
	}
	if err == nil {
		from, _ := replies[len(calls)].([]any)
		l.clock.update(source{integer(from, 0), integer(from, 1)}, sent, l.cfg.Log, l.decideClock(ctx))
	}
}

// testClock returns the Redis clock of a test in microseconds, otherwise "".
func (l *Limiter) testClock() any {
	if l.cfg.RedisNow == nil {
		return ""
	}
	return l.cfg.RedisNow().UnixMicro()
}

func (l *Limiter) decode(reply []any, p *api.Principal, day Day) Decision {
	d := Decision{
		Verdict: Rejected, Limits: p.Limits, Base: isBase(p), Clock: time.UnixMicro(integer(reply, 1)), Day: day,
		Today: int(integer(reply, 2)), Recent: int(integer(reply, 3)),
		Room: time.Duration(integer(reply, 4)) * time.Microsecond,
	}
	l.used.Store(int64(day)<<32 | integer(reply, 5))
	l.ofBase.Store(int64(day)<<32 | integer(reply, 6))
	l.decided.Store(integer(reply, 1))
	if reply[0] == string(Admitted) {
		d.Verdict = Admitted
		return d
	}
	d.ServiceFull = int(integer(reply, 5)) >= l.cfg.Capacity
	d.BaseFull = d.Base && int(integer(reply, 6)) >= l.cfg.BaseCap
	d.DayFull, d.MinuteFull = d.Today >= p.Limits.PerDay, d.Recent >= p.Limits.PerMinute
	return d
}

func isBase(p *api.Principal) bool { return p.Tier == api.BaseTier }

func integer(reply []any, i int) int64 {
	n, _ := reply[i].(int64)
	return n
}

// Refund refunds the charge of an admitted call for the day and the service, and updates d.Today.
// If another account has taken over the account since, the refund goes to that one. Call it at most
// once per call. On an error the charge stands.
func (l *Limiter) Refund(ctx context.Context, account string, d *Decision) error {
	base := ""
	if d.Base {
		base = counter.BaseField
	}
	today, err := l.run(context.WithoutCancel(ctx), refundScript, []string{d.Day.key(), counter.Merged},
		account, counter.ServiceField, base).Int()
	if err != nil {
		return err
	}
	if today >= 0 { // -1: the counters of that day were lost
		d.Today = today
	}
	return nil
}

// Current reports whether the principal's epoch is the current one of its account. An error is a
// 503.
func (l *Limiter) Current(ctx context.Context, p api.Principal) (bool, error) {
	done, err := l.breaker.Allow()
	if err != nil {
		return false, problem.Unavailable(err)
	}
	epoch, err := l.cfg.Redis.HGet(context.WithoutCancel(ctx), counter.Epochs, p.Account).Result()
	if errors.Is(err, redis.Nil) {
		epoch, err = "", nil
	}
	done(err)
	if err != nil {
		return false, problem.Unavailable(err)
	}
	return epoch == strconv.FormatInt(p.Epoch, 10), nil
}

func (l *Limiter) run(ctx context.Context, script *redis.Script, keys []string, args ...any) *redis.Cmd {
	done, err := l.breaker.Allow()
	if err != nil {
		cmd := redis.NewCmd(ctx)
		cmd.SetErr(err)
		return cmd
	}
	cmd := script.Run(ctx, l.cfg.Redis, keys, args...)
	done(cmd.Err())
	return cmd
}

// Verdict is the result of an admission.
type Verdict string

const (
	Admitted Verdict = "admitted" // charged to the minute, the day and the service
	Rejected Verdict = "refused"  // by at least one limit; nothing was charged
	Outdated Verdict = "epoch"    // the cached principal is out of date; nothing was charged

	// Internal to this package; Admit retries after them.
	wrongDay Verdict = "day"     // the Redis clock is on another day
	missing  Verdict = "missing" // the day has no counters
	late     Verdict = "late"    // the script ran after the deadline of the batch
)

// Decision is the result of one admission, with the figures for the response headers. Only Verdict
// is set if it is Outdated.
type Decision struct {
	Verdict Verdict
	Limits  api.Limits
	Clock   time.Time     // Redis time, shared by all replicas
	Day     Day           // the day to which the call was, or would have been, charged
	Today   int           // calls of the account on that day, including this one if admitted
	Recent  int           // calls of the account in the minute window, including this one if admitted
	Room    time.Duration // until the minute window has more room

	Base bool // the call counts against the share of the base tier

	ServiceFull, BaseFull, DayFull, MinuteFull bool // exceeded limits
}

func (d Decision) untilMidnight() time.Duration { return (d.Day + 1).Start().Sub(d.Clock) }

// RetryAfter returns the time until the call would be admitted if no other call is made: the
// longest wait of the exceeded limits.
func (d Decision) RetryAfter() time.Duration {
	var wait time.Duration
	if d.MinuteFull {
		wait = d.Room
	}
	if d.DayFull || d.ServiceFull || d.BaseFull {
		wait = max(wait, d.untilMidnight())
	}
	return wait
}

// Limit returns the code of the exceeded limit. If several are exceeded, the order is: shared
// capacity, day, minute.
func (d Decision) Limit() problem.Code {
	switch {
	case d.ServiceFull, d.BaseFull:
		return problem.ServiceCapacityReached
	case d.DayFull:
		return problem.DailyLimitReached
	}
	return problem.MinuteLimitReached
}

// Problem returns the 429 error with the exceeded limit and the wait.
func (d Decision) Problem() *problem.Error {
	code, message := d.Limit(), ""
	switch code {
	case problem.ServiceCapacityReached:
		message = "Daily capacity reached (shared by all accounts; it resets at 00:00 UTC)."
		if !d.ServiceFull {
			message = "Daily capacity of the " + string(api.BaseTier) +
				" tier reached (shared by all of its accounts; it resets at 00:00 UTC)."
		}
	case problem.DailyLimitReached:
		message = "Daily limit reached (" + strconv.Itoa(d.Limits.PerDay) + " requests per UTC day; it resets at 00:00 UTC)."
	default:
		message = "Minute limit reached (" + strconv.Itoa(d.Limits.PerMinute) + " requests in any 60 seconds)."
	}
	return (&problem.Error{Code: code, Message: message}).RetryIn(d.RetryAfter())
}

// SetHeaders sets the rate limit headers: the day in X-RateLimit-*, day and minute in the fields of
// draft-ietf-httpapi-ratelimit-headers. Times are in seconds, rounded up.
func (d Decision) SetHeaders(h http.Header) {
	var buffer [256]byte
	text, ends := buffer[:0], [len(rateLimitHeaders)]int{}
	number := func(before string, n int) { text = strconv.AppendInt(append(text, before...), int64(n), 10) }
	remaining := max(0, d.Limits.PerDay-d.Today)
	number("", d.Limits.PerDay)
	ends[0] = len(text)
	number("", remaining)
	ends[1] = len(text)
	number("", int(d.Day+1)*86400)
	ends[2] = len(text)
	number(`"minute";q=`, d.Limits.PerMinute)
	number(`;w=60, "day";q=`, d.Limits.PerDay)
	text = append(text, ";w=86400"...)
	ends[3] = len(text)
	number(`"minute";r=`, max(0, d.Limits.PerMinute-d.Recent))
	number(";t=", seconds(d.Room))
	number(`, "day";r=`, remaining)
	number(";t=", seconds(d.untilMidnight()))
	ends[4] = len(text)
	all, start, values := string(text), 0, make([]string, len(ends)) // two allocations for all headers
	for i, name := range rateLimitHeaders {
		values[i] = all[start:ends[i]]
		start, h[name] = ends[i], values[i:i+1:i+1]
	}
}

// rateLimitHeaders are the names of the headers that SetHeaders sets.
var rateLimitHeaders = [...]string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset",
	"RateLimit-Policy", "RateLimit"}

// seconds returns d in whole seconds, rounded up.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }
