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
	"strconv"
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

// send runs the admission script for a batch and stores the result in each call.
func (l *Limiter) send(ctx context.Context, calls []*call) {
	day := Day(l.day.Load())
	keys := make([]string, 0, 4+len(calls))
	keys = append(keys, counter.Epochs, day.key(), counter.Clock, counter.Changed(day.String()))
	args := make([]any, 0, 9+5*len(calls))
	earliest, latest := l.clock.bounds(ctx)
	args = append(args, int64(day), counter.ServiceField, counter.LatestField, l.cfg.Capacity, l.testClock(), earliest,
		latest,
		counter.BaseField, l.cfg.BaseCap)
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

// decide runs the admission script for a call, together with others, and stores the result in c.
// The call has a span of its own if its request is recorded: the batch has many parents.
func (l *Limiter) decide(ctx context.Context, c *call) {
	_, span := redisdb.StartSpan(ctx, l.cfg.Tracer, l.cfg.Redis, "evalsha")
	l.batches.do(c)
	telemetry.End(span, c.err)
}

func (l *Limiter) decode(reply []any, p *api.Principal, day Day) Decision {
	d := Decision{
		Verdict: Rejected, Limits: p.Limits, Base: isBase(p), Clock: time.UnixMicro(integer(reply, 1)), Day: day,
		Today: int(integer(reply, 2)), Recent: int(integer(reply, 3)), Room: time.Duration(integer(reply,
			4)) * time.Microsecond,
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

// Used returns the used share of today's capacity, as of the latest decision of this process. It is
// 0 if there was none today, so take the maximum of all replicas.
func (l *Limiter) Used() float64 { return l.share(&l.used, l.cfg.Capacity) }

// UsedByBase is like Used, for the part of the capacity that the base tier may use.
func (l *Limiter) UsedByBase() float64 { return l.share(&l.ofBase, l.cfg.BaseCap) }

func (l *Limiter) share(calls *atomic.Int64, of int) float64 {
	used := calls.Load()
	if Day(used>>32) != dayOf(l.cfg.Now()) {
		return 0
	}
	return float64(used&(1<<32-1)) / float64(of)
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

// restoreTimeout limits a restore, which takes up to seconds.
const restoreTimeout = 30 * time.Second

// errRestoring is the error of a call that did not wait for the end of a restore.
var errRestoring = errors.New("counters are being restored from the ledger")

// restore requests the counters of a day that Redis lacks, and waits as long as for one round trip:
// a call that needs a longer restore fails with 503. Concurrent calls share one request, which
// continues when they have returned.
func (l *Limiter) restore(ctx context.Context, day Day) error {
	name := day.String()
	restored := l.restores.DoChan(name, func() (any, error) {
		ctx, cancel := context.WithTimeout(ctx, restoreTimeout)
		defer cancel()
		return nil, l.cfg.Restore(ctx, name)
	})
	err := errRestoring
	select {
	case r := <-restored:
		err = r.Err
	case <-time.After(l.batches.budget):
	}
	if err != nil {
		return problem.Unavailable(fmt.Errorf("restoring counters of %s: %w", name, err))
	}
	return nil
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
