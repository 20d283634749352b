package admission

import (
	"context"
	"errors"
	"sync"
	"time"

	"opportunity.internal/pkg/api"
)

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
