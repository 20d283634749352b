package admission

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"opportunity.internal/pkg/counter"
)

// maxAhead is the largest deviation that is normal: of the latest admission from the time of the
// next one, and of the Redis clock from the expected time. admit.lua and clock.lua state the same
// value.
const maxAhead = 5 * time.Second

// redisClock tracks the clock that admissions use: the Redis clock plus a correction, which all
// gateways share in Redis. The correction is zero unless the Redis clock stepped away from the
// right time; clock.lua decides. It is safe for concurrent use.
//
// All times are in microseconds. A gateway's own clock is only compared with the Redis clock after
// a step, so it may be wrong otherwise.
type redisClock struct {
	own     func() time.Time
	started time.Time // reference for elapsed, on the monotonic clock

	offset  atomic.Int64 // time of admissions minus elapsed, from the latest reply; 0: unknown
	ahead   atomic.Int64 // Redis clock minus own clock, from the latest reply
	checked atomic.Int64 // elapsed when the correction was last checked
}

func newRedisClock(own func() time.Time) *redisClock { return &redisClock{own: own, started: own()} }

func (c *redisClock) elapsed() int64 { return c.own().Sub(c.started).Microseconds() }

// now returns the expected time of admissions. known is false before the first reply.
func (c *redisClock) now() (micros int64, known bool) {
	offset := c.offset.Load()
	return offset + c.elapsed(), offset != 0
}

// bounds returns the earliest and the latest time at which Redis may charge a batch that is sent
// now, or empty strings if unknown. After the latest time, its callers would no longer get the
// reply. The unknown travel time of replies makes it too early, never too late.
func (c *redisClock) bounds(ctx context.Context) (earliest, latest any) {
	now, known := c.now()
	end, limited := ctx.Deadline()
	if !known || !limited {
		return "", ""
	}
	return now - maxAhead.Microseconds(), now + (time.Until(end) - replyTime).Microseconds()
}

// source is the element of a reply that names the clock: the Redis clock and the correction.
type source struct{ redis, correction int64 }

// correctionInterval is the time between checks of a correction that is not zero.
const correctionInterval = 10 * time.Second

// update stores the clock of a reply to a request that was sent when elapsed was sent. If the clock
// stepped in the meantime, update first asks decide for the clock to use. While decide fails, the
// stored clock stays, so that the next reply shows the step again.
func (c *redisClock) update(s source, sent int64, log *slog.Logger,
	decide func(expected any, own int64) (source, error)) {
	received := c.elapsed()
	c.ahead.Store(s.redis - c.own().UnixMicro())
	offset, limit := c.offset.Load(), maxAhead.Microseconds()
	at := s.redis + s.correction
	stepped := offset != 0 && (at < offset+sent-limit || at > offset+received+limit)
	due := s.correction != 0 && received-c.checked.Load() > correctionInterval.Microseconds()
	if stepped || due || offset == 0 && s.correction != 0 {
		var expected any = ""
		if offset != 0 {
			expected = offset + received
		}
		decided, err := decide(expected, c.own().UnixMicro())
		if err != nil {
			return
		}
		c.checked.Store(received)
		if stepped {
			log.Warn("redis clock stepped", "offset_seconds", seconds64(s.redis-c.own().UnixMicro()), "correction_seconds",
				seconds64(decided.correction))
		}
		s = decided
		received = c.elapsed()
	}
	c.offset.Store(s.redis + s.correction - received)
}

func seconds64(micros int64) float64 { return float64(micros) / 1e6 }

// ClockOffset returns the Redis clock minus the clock of this process in seconds, as of the latest
// reply; 0 before the first.
func (l *Limiter) ClockOffset() float64 { return seconds64(l.clock.ahead.Load()) }

func (l *Limiter) decideClock(ctx context.Context) func(expected any, own int64) (source, error) {
	return func(expected any, own int64) (source, error) {
		reply, err := l.run(ctx, clockScript, []string{counter.Clock}, expected, own, l.testClock()).Slice()
		if err != nil {
			return source{}, err
		}
		return source{integer(reply, 0), integer(reply, 1)}, nil
	}
}
