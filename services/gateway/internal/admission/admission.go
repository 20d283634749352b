// Package admission decides whether an account may make another call, and charges the call if so.
//
// A call counts against three limits: the account's minute, the account's UTC day and the UTC day of the whole service. One Redis
// script checks all three, and that the cached principal is current, before it charges anything. So a rejected call costs nothing
// and replicas cannot overspend together. The clock is that of Redis. A call without a billable response is refunded for the day
// and the service (Refund); its minute stays charged, which slows down clients that repeat failing calls.
//
// Missing counters, after midnight or after data loss in Redis, are first loaded from the ledger of authquota. While Redis is
// unavailable, or the ledger when it is needed, calls fail with 503: a guess would either exceed a limit or withhold a paid call.
//
// A stalled Redis still runs the commands it has received, after their callers got 503. The script therefore takes a deadline by
// the Redis clock, and charges nothing after it.
//
// Known limits: the ledger lags Redis by about a second, so data loss in Redis forgets the charges of that second and all minute
// windows. A charge stands if its reply is lost, or if a stalled Redis runs the first batch of a process, which does not know the
// Redis clock yet.
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
	day      atomic.Int64 // latest day seen in a reply; a wrong one costs one more round trip
	used     atomic.Int64 // day<<32 | calls of the whole service; see Used

	started     time.Time    // reference for clockOffset, on the monotonic clock
	clockOffset atomic.Int64 // Redis clock minus time since started, in microseconds, from the latest reply; 0: unknown
}

// maxAttempts bounds the round trips of one Admit.
const maxAttempts = 5

// While the breaker is open, calls fail without waiting for Redis; one call probes it twice a second.
const (
	tripAfter  = 3
	probeAfter = 500 * time.Millisecond
)

// replyTime is the part of the budget reserved for the reply: a call is not charged if less time remains.
const replyTime = 20 * time.Millisecond

// New returns a limiter. capacity is the number of calls per UTC day for all accounts together; usage loads the calls of a day from
// the ledger. Tests set now to replace the Redis clock; otherwise it is nil.
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

// Admit decides on one call of the principal's account and charges it if admitted. It returns an error (503) when no decision could
// be made; nothing was charged.
//
// Admit ignores the cancellation of ctx: if the caller disconnected while the script runs, its charge would never be refunded. The
// budget of the batch bounds both the wait and the time in which Redis may charge.
func (l *Limiter) Admit(ctx context.Context, p api.Principal) (Decision, error) {
	ctx = context.WithoutCancel(ctx)
	for range maxAttempts { // retries follow midnight, seeding or a wrong estimate of the Redis clock
		c := call{principal: &p}
		l.traced(ctx, func() { l.batches.do(&c) })
		if c.err != nil {
			return Decision{}, problem.Unavailable(c.err)
		}
		switch verdict, _ := c.reply[0].(string); Verdict(verdict) {
		case wrongDay:
			l.day.Store(integer(c.reply, 1))
		case unseeded:
			if err := l.seed(ctx, c.day); err != nil {
				return Decision{}, err
			}
		case late: // the deadline was wrong: send has updated the clock offset
		case Outdated:
			return Decision{Verdict: Outdated}, nil
		default:
			return l.decode(c.reply, p.Limits, c.day), nil
		}
	}
	return Decision{}, problem.Unavailable(fmt.Errorf("admission retried %d times: Redis clock or counters keep changing", maxAttempts))
}

// send runs the admission script for a batch and stores the result in each call.
func (l *Limiter) send(ctx context.Context, calls []*call) {
	day := Day(l.day.Load())
	keys := make([]string, 2, 2+len(calls))
	keys[0], keys[1] = counter.Epochs, day.key()
	var clock any = ""
	if l.now != nil {
		clock = l.now().UnixMicro()
	}
	args := make([]any, 0, 6+4*len(calls))
	args = append(args, int64(day), counter.ServiceField, counter.LatestField, l.capacity, clock, l.deadline(ctx))
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
		l.updateClock(calls[0].reply)
	}
}

// deadline returns the latest Redis time, in microseconds, at which a charge still reaches its callers in time. It returns "" if the
// Redis clock is unknown or replaced by a test.
func (l *Limiter) deadline(ctx context.Context) any {
	end, ok := ctx.Deadline()
	offset := l.clockOffset.Load()
	if !ok || offset == 0 || l.now != nil {
		return ""
	}
	return offset + end.Add(-replyTime).Sub(l.started).Microseconds()
}

// updateClock stores the Redis clock from a reply. The unknown travel time of the reply makes deadlines too early, never too late;
// the next reply corrects a slow one.
func (l *Limiter) updateClock(reply []any) {
	if len(reply) < 2 || reply[0] == string(wrongDay) { // without the time
		return
	}
	l.clockOffset.Store(integer(reply, 1) - time.Since(l.started).Microseconds())
}

// traced runs do in a span if the request is sampled: a batch has many parents, so each call gets its own span.
func (l *Limiter) traced(ctx context.Context, do func()) {
	if trace.SpanFromContext(ctx).IsRecording() {
		_, span := l.tracer.Start(ctx, "redis evalsha", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
			attribute.String("db.system.name", "redis"), attribute.String("db.operation.name", "evalsha")))
		defer span.End()
	}
	do()
}

// decode converts the reply of admit.lua to an admitted or rejected call.
func (l *Limiter) decode(reply []any, limits api.Limits, day Day) Decision {
	d := Decision{
		Verdict: Rejected, Limits: limits, Clock: time.UnixMicro(integer(reply, 1)), Day: day,
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

// Refund refunds the charge of an admitted call for the day and the service, and updates d.Today. If another account has taken over
// the account since, the refund goes to that one. Call it at most once per call. On an error the charge stands.
func (l *Limiter) Refund(ctx context.Context, account string, d *Decision) error {
	today, err := l.run(context.WithoutCancel(ctx), refundScript, []string{d.Day.key(), counter.Merged},
		account, counter.ServiceField, counter.Moved(account)).Int()
	if err != nil {
		return err
	}
	if today >= 0 { // -1: the counters of that day were lost
		d.Today = today
	}
	return nil
}

// Used returns the used share of today's capacity, as of the latest decision of this process. It is 0 if there was none today, so take
// the maximum of all replicas.
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

// Current reports whether the principal's epoch is the current one of its account. An error is a 503.
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

// seed loads the counters of a day from the ledger into Redis. Concurrent calls share one load.
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
		return problem.Unavailable(fmt.Errorf("loading counters of %s from the ledger: %w", name, err))
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
