package usage

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"opportunity.internal/pkg/api"
)

const maxLogged = 10_000 // unsent requests, about 4 MB

// Log buffers the request log of one process. It is safe for concurrent use.
//
// It buffers at most api.RequestLogSize requests of one key, the number that authquota stores, so that a busy key leaves room for the
// others. Requests beyond the bounds are counted as lost.
type Log struct {
	outbox[api.RequestLogBatch]

	mu       sync.Mutex
	buffered []api.LoggedRequest
	perKey   map[string]int
}

// NewLog returns an empty log. send delivers a batch to authquota, like that of New.
func NewLog(send func(context.Context, api.RequestLogBatch) error, log *slog.Logger) *Log {
	l := &Log{perKey: map[string]int{}}
	l.outbox = outbox[api.RequestLogBatch]{
		name: "request log batch", send: send, log: log, soon: make(chan struct{}, 1),
		next: l.nextBatch, size: func(b *api.RequestLogBatch) int64 { return int64(len(b.Requests)) },
	}
	return l
}

// Record adds a request. Its Params are the raw query string; the batch has only the parameters that api.LoggedParams accepts.
func (l *Log) Record(r api.LoggedRequest) {
	if len(r.Params) > api.MaxLoggedQuery { // none of it would be in the batch
		r.Params = ""
	}
	r.Params = strings.Clone(r.Params) // part of the request line, which may be long
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.buffered) >= maxLogged || l.perKey[r.Key] >= api.RequestLogSize {
		l.lost.Add(1)
		return
	}
	l.perKey[r.Key]++
	l.buffered = append(l.buffered, r)
	l.pending.Add(1)
	if len(l.buffered) == maxLogged/2 {
		select {
		case l.soon <- struct{}{}:
		default:
		}
	}
}

func (l *Log) nextBatch() *api.RequestLogBatch {
	batch := l.removeOldest()
	if len(batch) == 0 {
		return nil
	}
	for i := range batch {
		batch[i].Params = api.LoggedParams(batch[i].Params)
	}
	return &api.RequestLogBatch{Requests: batch}
}

// removeOldest removes up to api.MaxLogBatch requests from the buffer and returns them.
func (l *Log) removeOldest() []api.LoggedRequest {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.buffered), api.MaxLogBatch)
	batch := slices.Clone(l.buffered[:n])
	l.buffered = slices.Delete(l.buffered, 0, n)
	for _, r := range batch {
		if l.perKey[r.Key]--; l.perKey[r.Key] == 0 {
			delete(l.perKey, r.Key)
		}
	}
	return batch
}
