// Package admission decides whether an account may make one more call, and charges it if so.
//
// A call is charged to three allowances: the account's minute, the account's UTC day, and the day of the whole service. One
// script in Redis checks all three, and that the caller's knowledge of the account is up to date, before it spends any; so a
// refused call costs nothing, and replicas cannot overspend together. The clock is that of Redis. A call that ends without
// an answer worth counting gets day and service back (Refund); its minute stays spent, so that rejected calls cannot be
// hammered.
//
// Counters that are gone, at midnight or with a Redis that lost its data, are first filled from the ledger of authquota.
// When Redis or, for that, the ledger cannot be asked, the call fails with 503: an allowance is a promise, to be neither
// exceeded nor withheld by guessing.
//
// A Redis that stalls still runs what it was sent, when its callers have long been told 503. So the script is told until when
// somebody waits, by the clock of Redis, and charges nothing after that.
//
// Known limits: the ledger follows Redis by about a second, so a loss of Redis forgets what was charged within the last one,
// and all minute windows. A charge whose reply is lost on its way stands, and so does one that a stalled Redis makes for the
// first batch of a process, which does not know the clock of Redis yet.
package admission

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/singleflight"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
)

//go:embed admit.lua
var admitLua string

//go:embed refund.lua
var refundLua string

//go:embed seed.lua
var seedLua string

var admitScript, refundScript, seedScript = redis.NewScript(admitLua), redis.NewScript(refundLua), redis.NewScript(seedLua)

// Limiter admits calls. It is safe for concurrent use.
type Limiter struct {
	redis    *redis.Client
	tracer   trace.Tracer
	batches  batcher
	breaker  *gobreaker.TwoStepCircuitBreaker[struct{}]
	capacity int
	usage    func(ctx context.Context, day string) (api.DayUsage, error)
	seeding  singleflight.Group
	now      func() time.Time
	day      atomic.Int64 // as Redis last told it; a wrong one costs one more round trip
	used     atomic.Int64 // calls of the whole service, below the number of their day: see Used

	started time.Time    // what behind is counted from, by the steady clock of this process
	behind  atomic.Int64 // microseconds between the clock of Redis and the time since started, from its last reply; 0: none yet
}

// The breaker spares callers the wait for a Redis that does not answer, and lets one of them try twice a second.
const (
	tripAfter  = 3
	probeAfter = 500 * time.Millisecond
)

// wayBack is what the reply of Redis may take of the budget: a call is not charged when there is less left of it.
const wayBack = 20 * time.Millisecond

// New makes a limiter. capacity is how many calls all accounts together may make on one UTC day; usage asks the ledger for
// the calls of a day. now replaces the clock of Redis in tests; nil leaves it.
func New(client *redis.Client, tracer trace.Tracer, capacity int, usage func(ctx context.Context, day string) (api.DayUsage, error), now func() time.Time) *Limiter {
	l := &Limiter{
		redis: client, tracer: tracer, capacity: capacity, usage: usage, now: now, started: time.Now(),
		breaker: gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
			Timeout:     probeAfter,
			ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= tripAfter },
		}),
	}
	l.batches.send = l.send
	l.day.Store(int64(dayOf(time.Now())))
	return l
}

// Admit decides on one call of the principal's account. An error means that nobody could decide (503) and that the caller is
// owed nothing.
//
// It does not end with ctx: a caller that leaves while the script runs would leave a charge behind that nobody knows of. The
// budget of a batch bounds the wait, and the time until when Redis may charge.
func (l *Limiter) Admit(ctx context.Context, p api.Principal) (Decision, error) {
	ctx = context.WithoutCancel(ctx)
	for range 5 { // once in general; again after midnight, after seeding, and where the clock of Redis was misjudged
		call := pending{principal: &p}
		l.traced(ctx, func() { l.batches.do(&call) })
		if call.err != nil {
			return Decision{}, problem.Unavailable(call.err)
		}
		switch verdict, _ := call.reply[0].(string); Verdict(verdict) {
		case otherDay:
			l.day.Store(integer(call.reply, 1))
		case unseeded:
			if err := l.seed(ctx, call.day); err != nil {
				return Decision{}, err
			}
		case late: // told in time all the same: send knows the clock of Redis better now
		case Outdated:
			return Decision{Verdict: Outdated}, nil
		default:
			return l.decode(call.reply, p.Limits, call.day), nil
		}
	}
	return Decision{}, problem.Unavailable(errors.New("neither the clock nor the counters of Redis stay as they were found"))
}

// send admits a batch by one run of the script.
func (l *Limiter) send(ctx context.Context, calls []*pending) {
	day := Day(l.day.Load())
	keys := make([]string, 2, 2+len(calls))
	keys[0], keys[1] = counter.Epochs, day.key()
	var clock any = ""
	if l.now != nil {
		clock = l.now().UnixMicro()
	}
	args := make([]any, 0, 6+4*len(calls))
	args = append(args, int64(day), counter.ServiceField, counter.LatestField, l.capacity, clock, l.notAfter(ctx))
	for _, c := range calls {
		keys = append(keys, counter.Window(c.principal.Account))
		args = append(args, c.principal.Account, c.principal.Epoch, c.principal.Limits.PerMinute, c.principal.Limits.PerDay)
	}
	replies, err := l.run(ctx, admitScript, keys, args...).Slice()
	for i, c := range calls {
		c.day, c.err = day, err
		if err == nil {
			c.reply, _ = replies[i].([]any)
		}
	}
	if err == nil {
		l.learn(calls[0].reply)
	}
}

// notAfter is the last moment, in microseconds by the clock of Redis, at which a batch may be charged so that its callers still
// hear of it; empty where that clock is not known, or is that of a test.
func (l *Limiter) notAfter(ctx context.Context) any {
	deadline, ok := ctx.Deadline()
	behind := l.behind.Load()
	if !ok || behind == 0 || l.now != nil {
		return ""
	}
	return behind + deadline.Add(-wayBack).Sub(l.started).Microseconds()
}

// learn takes the clock of Redis from a reply. By now that clock is later by the reply's way, which is not known: so notAfter
// comes out too early rather than too late. A reply that took long is made up for by the next one.
func (l *Limiter) learn(reply []any) {
	if len(reply) < 2 || reply[0] == string(otherDay) { // these do not tell the time
		return
	}
	l.behind.Store(integer(reply, 1) - time.Since(l.started).Microseconds())
}

// traced gives a recorded request a span of its own for its part of a batch.
func (l *Limiter) traced(ctx context.Context, do func()) {
	if trace.SpanFromContext(ctx).IsRecording() {
		_, span := l.tracer.Start(ctx, "redis evalsha", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
			attribute.String("db.system.name", "redis"), attribute.String("db.operation.name", "evalsha")))
		defer span.End()
	}
	do()
}

// decode reads the reply of admit.lua to a call that was admitted or refused.
func (l *Limiter) decode(reply []any, limits api.Limits, day Day) Decision {
	d := Decision{
		Verdict: Refused, Limits: limits, Clock: time.UnixMicro(integer(reply, 1)), Day: day,
		Today: int(integer(reply, 2)), Recent: int(integer(reply, 3)), Room: time.Duration(integer(reply, 4)) * time.Microsecond,
	}
	l.used.Store(int64(day)<<32 | integer(reply, 5))
	if reply[0] == string(Admitted) {
		d.Verdict = Admitted
		return d
	}
	d.ServiceFull = int(integer(reply, 5)) >= l.capacity
	d.DayFull, d.MinuteFull = d.Today >= limits.PerDay, d.Recent >= limits.PerMinute
	return d
}

func integer(reply []any, i int) int64 {
	n, _ := reply[i].(int64)
	return n
}

// Refund gives the charge of an admitted call back to day and service, and corrects the figures of d: to the account's day or, where
// another account has taken it over since, to that one's. It must be called at most once for a call. On an error the charge stands.
func (l *Limiter) Refund(ctx context.Context, account string, d *Decision) error {
	today, err := l.run(context.WithoutCancel(ctx), refundScript, []string{d.Day.key(), counter.Merged},
		account, counter.ServiceField, counter.Moved(account)).Int()
	if err != nil {
		return err
	}
	if today >= 0 { // the counters of that day may be gone by now
		d.Today = today
	}
	return nil
}

// Used is the share of today's capacity that is used up, as far as the last call that this process asked Redis about showed it. 0
// where none of today was asked about: an idle replica knows less than the others.
func (l *Limiter) Used() float64 {
	now := time.Now
	if l.now != nil {
		now = l.now
	}
	used := l.used.Load()
	if Day(used>>32) != dayOf(now()) {
		return 0
	}
	return float64(used&(1<<32-1)) / float64(l.capacity)
}

// Current reports whether the principal is up to date, by its account's epoch.
func (l *Limiter) Current(ctx context.Context, p api.Principal) (bool, error) {
	done, err := l.breaker.Allow()
	if err != nil {
		return false, problem.Unavailable(err)
	}
	epoch, err := l.redis.HGet(context.WithoutCancel(ctx), counter.Epochs, p.Account).Result()
	if errors.Is(err, redis.Nil) {
		epoch, err = "", nil
	}
	done(err)
	if err != nil {
		return false, problem.Unavailable(err)
	}
	return epoch == strconv.FormatInt(p.Epoch, 10), nil
}

// seed fills the counters of a day from the ledger, once for all calls that wait for it.
func (l *Limiter) seed(ctx context.Context, day Day) error {
	name := day.String()
	_, err, _ := l.seeding.Do(name, func() (any, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		usage, err := l.usage(ctx, name)
		if err != nil {
			return nil, err
		}
		args := make([]any, 0, 3+2*len(usage.Accounts))
		args = append(args, counter.DayTTL.Milliseconds(), counter.ServiceField, usage.Service)
		for account, calls := range usage.Accounts {
			args = append(args, account, calls)
		}
		return nil, l.run(ctx, seedScript, []string{day.key()}, args...).Err()
	})
	if err != nil {
		return problem.Unavailable(fmt.Errorf("counters of %s from the ledger: %w", name, err))
	}
	return nil
}

// run executes a script behind the breaker.
func (l *Limiter) run(ctx context.Context, script *redis.Script, keys []string, args ...any) *redis.Cmd {
	done, err := l.breaker.Allow()
	if err != nil {
		cmd := redis.NewCmd(ctx)
		cmd.SetErr(err)
		return cmd
	}
	cmd := script.Run(ctx, l.redis, keys, args...)
	done(cmd.Err())
	return cmd
}
