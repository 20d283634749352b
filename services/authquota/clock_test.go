package authquota_test

import (
	"sync/atomic"
	"time"
)

// clock is a clock that the test moves.
type clock struct{ at atomic.Int64 }

func clockAt(t time.Time) *clock {
	c := new(clock)
	c.at.Store(t.UnixMicro())
	return c
}

func (c *clock) Now() time.Time        { return time.UnixMicro(c.at.Load()).UTC() }
func (c *clock) move(by time.Duration) { c.at.Add(by.Microseconds()) }
