package admission

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/redisdb"
	"opportunity.internal/pkg/storetest/redistest"
	"opportunity.internal/pkg/telemetry"
)

// BenchmarkAdmit compares one admission (epoch, minute, day and service in one round trip) with a
// plain PING on the same Redis, each from 16 clients at once. The metric of/PING is the rate of
// admissions in units of the rate of PINGs.
func BenchmarkAdmit(b *testing.B) {
	const clients = 16
	ctx := context.Background()
	tel, err := telemetry.Start(ctx, "bench", telemetry.Config{LogOutput: io.Discard})
	require.NoError(b, err)
	c, err := redisdb.Open(redisdb.Config{URL: redistest.Start(b).URL}, tel)
	require.NoError(b, err)
	defer c.Close()
	limiter := New(Config{Redis: c, Tracer: tel.Tracer, Log: tel.Log, Capacity: 1 << 40, Restore: emptyLedger(c),
		Now: time.Now})
	principals := make([]api.Principal, 100*clients) // enough for Redis to store the hash as a table, as in production
	for i := range principals {
		principals[i] = api.Principal{Account: fmt.Sprintf("acc_%d", i), Epoch: 1,
			Limits: api.Limits{PerMinute: 1 << 40, PerDay: 1 << 40}}
		require.NoError(b, c.HSet(ctx, counter.Epochs, principals[i].Account, 1).Err())
	}
	const block = 4000
	crowd := func(call func(i int) error) time.Duration {
		start := time.Now()
		var all sync.WaitGroup
		for client := range clients {
			all.Go(func() {
				for i := client; i < block; i += clients {
					if err := call(i); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		return time.Since(start)
	}
	ping := func(int) error { return c.Ping(ctx).Err() }
	n := 0
	admit := func(i int) error {
		_, err := limiter.Admit(ctx, principals[(n+i)%len(principals)])
		return err
	}
	crowd(ping)
	crowd(admit)
	var pings, admissions time.Duration
	for b.Loop() { // alternate blocks, so that noise of the machine affects both
		pings += crowd(ping)
		admissions += crowd(admit)
		n += block
	}
	b.ReportMetric(pings.Seconds()/admissions.Seconds(), "of/PING")
	b.ReportMetric(block*float64(b.N)/admissions.Seconds(), "admissions/s")
	b.ReportMetric(block*float64(b.N)/pings.Seconds(), "PINGs/s")
}
