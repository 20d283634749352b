package admission

import (
	"context"
	"sync"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/redisdb"
)

// How many batches may be with Redis at a time, and how many calls one may hold. While Redis serves one and the answer to another
// is on its way, the calls that arrive form the next; more batches in flight would only be smaller (BenchmarkAdmit).
const (
	batchesInFlight = 2
	batchSize       = 64 // keeps Redis from others for less than a millisecond
)

// batcher sends calls that arrive together to Redis together. A call still waits for one round trip, but shares its cost, and
// most of what the script costs, with the others. One that meets no other goes at once and alone.
type batcher struct {
	send func(ctx context.Context, calls []*pending)

	mu       sync.Mutex
	waiting  []*pending
	inFlight int
}

// pending is a call on its way. send sets day, reply and err.
type pending struct {
	principal *api.Principal
	since     time.Time

	day   Day // that the script was asked about
	reply []any
	err   error

	done chan struct{}
}

// do takes p there and back. It takes no longer than the budget of one command: a batch ends with the budget of whoever in it
// has waited longest.
func (b *batcher) do(p *pending) {
	p.since, p.done = time.Now(), make(chan struct{})
	b.mu.Lock()
	b.waiting = append(b.waiting, p)
	free := b.inFlight < batchesInFlight
	if free {
		b.inFlight++
	}
	b.mu.Unlock()
	if free {
		go b.drain()
	}
	<-p.done
}

// drain sends whoever waits, one batch after the other, until nobody does.
func (b *batcher) drain() {
	for {
		b.mu.Lock()
		n := min(len(b.waiting), batchSize)
		batch := b.waiting[:n:n]
		b.waiting = b.waiting[n:]
		if n == 0 {
			b.inFlight--
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		ctx, cancel := context.WithDeadline(context.Background(), batch[0].since.Add(redisdb.Budget))
		b.send(ctx, batch)
		cancel()
		for _, p := range batch {
			close(p.done)
		}
	}
}
