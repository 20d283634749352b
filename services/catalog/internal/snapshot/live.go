package snapshot

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"opportunity.internal/pkg/problem"
)

// Source is where the catalog is kept. Its change sequence grows with every change of a listing or of its summary, in the
// order in which the changes become visible, and each listing carries the number of its own latest change.
type Source interface {
	// Sequence is the latest number that was given out.
	Sequence(ctx context.Context) (int64, error)
	// Changes hands over every listing with a number above after, in that order.
	Changes(ctx context.Context, after int64, each func(Row) error) error
}

const (
	pollInterval = 200 * time.Millisecond // how long a change may stay unseen
	pollTimeout  = 2 * time.Second        // for asking whether there is one
	loadTimeout  = time.Minute            // for reading what changed

	// MaxAge is how long the catalog answers without word from its source.
	MaxAge = 5 * time.Minute
)

// Live keeps the newest snapshot of a source.
type Live struct {
	source Source
	now    func() time.Time
	log    *slog.Logger

	current        atomic.Pointer[Snapshot] // nil until the first one is there
	lastPoll       atomic.Int64             // instant at which the source last answered
	polledSequence int64                    // the source's sequence at that poll
	scheduled      map[string]Row           // published rows that are not public before a later instant, by id
	buildTime      atomic.Int64             // nanoseconds that the newest snapshot took to make
	builtAt        atomic.Int64             // instant at which it was there
}

// NewLive prepares a catalog that Run fills.
func NewLive(source Source, now func() time.Time, log *slog.Logger) *Live {
	return &Live{source: source, now: now, log: log}
}

// Run follows the source until ctx ends. A source that fails is asked again; meanwhile the snapshot stays what it is.
func (l *Live) Run(ctx context.Context) error {
	failing := false
	for {
		err := l.poll(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !failing {
			l.log.WarnContext(ctx, "catalog cannot be read; serving what is loaded", "error", err.Error())
		} else if err == nil && failing {
			l.log.InfoContext(ctx, "catalog can be read again")
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollInterval):
		}
	}
}

func (l *Live) poll(ctx context.Context) error {
	started := l.now() // what is read is at least as new as this
	short, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	sequence, err := l.source.Sequence(short)
	if err != nil {
		return err
	}
	current := l.current.Load()
	if current == nil || sequence != l.polledSequence || l.scheduledIsPublic(started) {
		start := time.Now()
		next, ahead, n, err := l.load(ctx, current, started)
		if err != nil {
			return err
		}
		l.scheduled = ahead
		if l.polledSequence = sequence; next != current {
			l.current.Store(next)
			l.buildTime.Store(int64(time.Since(start)))
			l.builtAt.Store(l.now().UnixNano())
			l.log.InfoContext(ctx, "catalog loaded", "sequence", next.sequence, "changed", n, "records", next.Len(), "took", time.Since(start))
		}
	}
	l.lastPoll.Store(started.UnixNano())
	return nil
}

// arrived reports whether a row that was ahead is public at now.
func (l *Live) scheduledIsPublic(now time.Time) bool {
	for _, row := range l.scheduled {
		if !row.scheduled(now) {
			return true
		}
	}
	return false
}

// load reads what changed since current (nil: everything) and counts it, with the rows that became public since. A row that cannot be
// decoded or encoded is left out; one that is not public at now is returned in ahead. One goroutine reads rows, and as many as
// there are processors encode them.
func (l *Live) load(ctx context.Context, current *Snapshot, now time.Time) (next *Snapshot, ahead map[string]Row, n int, err error) {
	ahead = maps.Clone(l.scheduled)
	if ahead == nil {
		ahead = map[string]Row{}
	}
	first := current == nil
	if first {
		current = empty
	}
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	const batch = 128
	batches := make(chan []Row, 2*runtime.GOMAXPROCS(0))
	var mu sync.Mutex
	var changes []change
	sequence := current.sequence
	g, ctx := errgroup.WithContext(ctx)
	for range runtime.GOMAXPROCS(0) {
		g.Go(func() error {
			enc := newEncoder(l.now)
			var mine []change
			for rows := range batches {
				for _, row := range rows {
					c, err := enc.change(row)
					if err != nil { // it alone is not public then: neither it nor a withdrawal after it may wait for a repair
						l.log.ErrorContext(ctx, "record left out", "listing", row.ID, "error", err.Error())
						c = change{id: row.ID, leftOut: true}
					}
					mine = append(mine, c)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			changes = append(changes, mine...)
			return nil
		})
	}
	g.Go(func() error {
		defer close(batches)
		rows := make([]Row, 0, batch)
		send := func() error {
			select {
			case batches <- rows:
				rows = make([]Row, 0, batch)
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		err := l.source.Changes(ctx, current.sequence, func(row Row) error {
			sequence = max(sequence, row.Sequence)
			if delete(ahead, row.ID); row.scheduled(now) {
				ahead[row.ID] = row
				row.Document = nil
			}
			if rows = append(rows, row); len(rows) < batch {
				return nil
			}
			return send()
		})
		for id, row := range ahead {
			if !row.scheduled(now) {
				delete(ahead, id)
				rows = append(rows, row)
			}
		}
		return errors.Join(err, send())
	})
	if err := g.Wait(); err != nil {
		return nil, nil, 0, err
	}
	if len(changes) == 0 && !first {
		return current, ahead, 0, nil
	}
	return current.apply(changes, sequence), ahead, len(changes), nil
}

// View is the catalog now. It is problem.Unavailable before the first snapshot, and once the source has been silent for MaxAge:
// what is served would be too old to be called maintained.
func (l *Live) View() (View, error) {
	s, now := l.current.Load(), l.now().UTC()
	if s == nil {
		return View{}, problem.Unavailable(errors.New("no snapshot is loaded yet"))
	}
	if now.Sub(time.Unix(0, l.lastPoll.Load())) > MaxAge {
		return View{}, problem.Unavailable(errors.New("the source of the catalog has been silent for too long"))
	}
	return s.At(now), nil
}

// Loaded reports an error until the first snapshot is there.
func (l *Live) Loaded(context.Context) error {
	if l.current.Load() == nil {
		return errors.New("no snapshot is loaded yet")
	}
	return nil
}

// Stats are the figures that operators watch.
type Stats struct {
	Records   int
	Bytes     int64 // of the encoded records
	LeftOut   int   // published, but not to be read
	Sequence  int64
	Age       time.Duration // since the source last answered; 0 before it ever did
	BuildTime time.Duration // to make the newest snapshot
	BuiltAt   time.Time     // when that was there; zero before there is one
}

// Stats reads the figures of this moment.
func (l *Live) Stats() Stats {
	s := l.current.Load()
	if s == nil {
		return Stats{}
	}
	return Stats{
		Records: s.Len(), Bytes: s.bytes, LeftOut: len(s.leftOut), Sequence: s.sequence,
		Age: l.now().Sub(time.Unix(0, l.lastPoll.Load())), BuildTime: time.Duration(l.buildTime.Load()), BuiltAt: time.Unix(0, l.builtAt.Load()),
	}
}
