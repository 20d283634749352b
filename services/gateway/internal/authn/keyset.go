package authn

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"opportunity.internal/pkg/api"
)

const (
	readEvery = time.Hour             // of the whole list
	syncEvery = 10 * time.Second      // while no request waits
	syncPause = 50 * time.Millisecond // between two syncs, at least
)

// errNotSynced means that the key set could not be synced in time, so it is unknown whether a key
// exists.
var errNotSynced = errors.New("known keys not synced in time")

// keySet holds the shortened digest of every key that authquota lists, those that ended lately
// included: about 32 bytes a key, 10 MB for 300,000. It is read again from time to time, because
// keys leave the list.
//
// One goroutine (run) follows authquota's list. A key that is not in the set is unknown only after
// a sync that began later than the request, so a new key works at once. All waiting requests share
// one sync.
type keySet struct {
	pull func(context.Context, api.KeyPosition) (api.KeyDigests, error)

	wanted chan struct{}

	mu    sync.RWMutex
	known map[uint64]struct{}
	// reread replaces known at the end of the list. It is nil unless the list is read from its
	// beginning.
	reread map[uint64]struct{}
	next   *syncRound // not begun yet
}

// syncRound is one sync. err may be read once done is closed.
type syncRound struct {
	done chan struct{}
	err  error
}

func newKeySet(pull func(context.Context, api.KeyPosition) (api.KeyDigests, error)) *keySet {
	return &keySet{
		pull: pull, wanted: make(chan struct{}, 1), known: map[uint64]struct{}{}, next: &syncRound{done: make(chan struct{})},
	}
}

// has reports whether a key with one of the digests exists. It returns errNotSynced if it cannot
// tell before ctx ends.
func (s *keySet) has(ctx context.Context, digests []string) (bool, error) {
	s.mu.RLock()
	found, round := s.contains(digests), s.next
	s.mu.RUnlock()
	if found {
		return true, nil
	}
	select {
	case s.wanted <- struct{}{}:
	default: // a sync is already requested
	}
	err := errNotSynced
	select {
	case <-ctx.Done():
	case <-round.done:
		if round.err == nil {
			err = nil
		}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.contains(digests) { // also on a page before the one that failed
		return true, nil
	}
	return false, err
}

func (s *keySet) contains(digests []string) bool {
	for _, d := range digests {
		short, err := strconv.ParseUint(d[:api.KeyDigestLength], 16, 64)
		if _, ok := s.known[short]; ok && err == nil {
			return true
		}
	}
	return false
}

func (s *keySet) size() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.known)
}

// run syncs until ctx ends: at once, then every syncEvery and whenever a request waits. It calls
// report with the result of each sync.
func (s *keySet) run(ctx context.Context, log *slog.Logger, report func(error)) {
	var at api.KeyPosition
	failing, read := false, time.Now()
	for ctx.Err() == nil {
		if time.Since(read) >= readEvery {
			at, read = api.KeyPosition{}, time.Now()
		}
		s.mu.Lock()
		round := s.next
		s.next = &syncRound{done: make(chan struct{})}
		s.mu.Unlock()
		at, round.err = s.sync(ctx, at)
		close(round.done)
		if ctx.Err() != nil {
			return
		}
		report(round.err)
		if err := round.err; err != nil && !failing {
			log.WarnContext(ctx, "key digest sync failing", "error", err.Error())
		} else if err == nil && failing {
			log.InfoContext(ctx, "key digest sync recovered")
		}
		failing = round.err != nil
		pause(ctx, syncPause, nil)
		pause(ctx, syncEvery, s.wanted)
	}
}

func (s *keySet) sync(ctx context.Context, at api.KeyPosition) (api.KeyPosition, error) {
	for {
		page, err := s.page(ctx, at)
		if err != nil {
			return at, err
		}
		s.mu.Lock()
		if page.After == (api.KeyPosition{}) { // also if authquota's database was restored
			s.reread = map[uint64]struct{}{}
		}
		for _, d := range page.Digests {
			short, err := strconv.ParseUint(d, 16, 64)
			if err != nil {
				continue
			}
			s.known[short] = struct{}{}
			if s.reread != nil {
				s.reread[short] = struct{}{}
			}
		}
		if !page.More && s.reread != nil {
			s.known, s.reread = s.reread, nil
		}
		s.mu.Unlock()
		if at = page.Last; !page.More {
			return at, nil
		}
	}
}

func (s *keySet) page(ctx context.Context, at api.KeyPosition) (api.KeyDigests, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	return s.pull(ctx, at)
}

func pause(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
}
