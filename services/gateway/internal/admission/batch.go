package admission

import (
	"context"
	"errors"
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

	done chan struct{} // closed when it is back; nil for a call that did not have to wait
}

// do takes p there and back. It takes no longer than the budget of one command: a batch ends with the budget of whoever in it
// has waited longest.
func (b *batcher) do(p *pending) {
	p.since = time.Now()
	b.mu.Lock()
	if b.inFlight == batchesInFlight {
		p.done = make(chan struct{})
		b.waiting = append(b.waiting, p)
		b.mu.Unlock()
		<-p.done
		return
	}
	b.inFlight++
	b.mu.Unlock()
	b.exec([]*pending{p})
	if next := b.next(); next != nil {
		go b.drain(next)
	}
}

// drain sends whoever waits, one batch after the other, until nobody does.
func (b *batcher) drain(batch []*pending) {
	for ; batch != nil; batch = b.next() {
		b.exec(batch)
		for _, p := range batch {
			close(p.done)
		}
	}
}

// next takes the calls that wait by now, or ends one place in flight where none does.
func (b *batcher) next() []*pending {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.waiting), batchSize)
	if n == 0 {
		b.inFlight--
		return nil
	}
	batch := b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	return batch
}

// errWaited is how a call ends whose budget was over before its turn came.
var errWaited = errors.New("the call waited for its turn until there was no time left for it")

// exec sends a batch, unless it has waited too long for an answer to be in time: Redis would work for nobody, and would be held
// to have failed.
func (b *batcher) exec(batch []*pending) {
	deadline := batch[0].since.Add(redisdb.Budget)
	if time.Until(deadline) <= wayBack {
		for _, p := range batch {
			p.err = errWaited
		}
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	b.send(ctx, batch)
}
