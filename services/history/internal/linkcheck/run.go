package linkcheck

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/history/internal/store"
)

const (
	maxAttempts = 3 // of an unreachable link
	// hostsPerRequest is the number of hosts processed in parallel for each concurrent request.
	// Most hosts wait for their gap.
	hostsPerRequest = 32
	// maxWait is the longest Retry-After that a run respects. A link with a longer one is not
	// retried.
	maxWait = 10 * time.Minute

	day = 24 * time.Hour
	// minInterval is the minimum time between two checks of a link. Without it, a link that was
	// checked late, or a new listing shortly before its due time, would be checked twice in quick
	// succession.
	minInterval = 12 * time.Hour
)

var backoff = [maxAttempts - 1]time.Duration{time.Minute, 5 * time.Minute}

// Report is the result of a run.
type Report struct {
	Outcomes map[api.Outcome]int // recorded checks
	Reserved int                 // links with a reserved host name; never checked
	Deferred int                 // links and pages left to the next run because their host requires long delays
	// Unresolved counts links and pages left to the next run because no name at all could be
	// resolved: the network of the checker is down.
	Unresolved int
	Lost       int // checks of the last day claimed by a run that was killed before it recorded them
	Read       PagesRead
	Duration   time.Duration
}

// Checked returns the number of recorded checks.
func (r Report) Checked() (n int) {
	for _, count := range r.Outcomes {
		n += count
	}
	return n
}

// String returns the report as one line of text.
func (r Report) String() string {
	var outcomes []string
	for _, o := range api.Outcomes[api.LinkCheck] {
		if r.Outcomes[o] > 0 {
			outcomes = append(outcomes, fmt.Sprintf("%d %s", r.Outcomes[o], o))
		}
	}
	text := fmt.Sprintf("checked %s in %s", plural(r.Checked(), "link"), r.Duration.Round(time.Second))
	if len(outcomes) > 0 {
		text += ": " + strings.Join(outcomes, ", ")
	}
	for _, more := range []struct {
		n    int
		what string
	}{
		{r.Reserved, "skipped (reserved host names)"},
		{r.Deferred, "left to the next run (their hosts require long delays)"},
		{r.Unresolved, "left to the next run (no host name could be resolved)"},
		{r.Lost, "lost when a run was killed (next check tomorrow)"},
	} {
		if more.n > 0 {
			text += fmt.Sprintf("; %d %s", more.n, more.what)
		}
	}
	return text + r.Read.String()
}

func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// errClaimed means that another run has claimed a link.
var errClaimed = errors.New("link claimed by another run")

type run struct {
	*Checker
	id    string
	store *store.Store
	ctx   context.Context // its end stops new checks
	hard  context.Context // its end also aborts checks in progress
	fail  func(error)     // ends both contexts

	mu     sync.Mutex
	report Report
}

// task is the check of one link in a run, or the reading of a page, which has no slug.
type task struct {
	slug     string
	address  string
	due      time.Time
	claimed  bool
	attempts int
	after    time.Time // of the next attempt; zero for immediately
}

// all checks every due link and reads every due page. It returns an error if it cannot read which.
func (r *run) all(started time.Time) error {
	links, err := r.store.Links(r.ctx)
	if err != nil {
		return err
	}
	pages, err := r.store.PagesToRead(r.ctx)
	if err != nil {
		return err
	}
	var workers sync.WaitGroup
	slots := make(chan struct{}, hostsPerRequest*r.cfg.Concurrency)
	for _, queue := range r.queues(links, pages, started) {
		select {
		case slots <- struct{}{}:
		case <-r.ctx.Done():
		}
		if r.ctx.Err() != nil {
			break
		}
		workers.Go(func() {
			defer func() { <-slots }()
			r.checkHost(queue)
		})
	}
	workers.Wait()
	r.finishPages(started)
	return nil
}

// queues returns the due links and pages grouped by host, the longest overdue first.
func (r *run) queues(links []store.Link, pages []store.PageToRead, now time.Time) [][]*task {
	hosts := map[string][]*task{}
	add := func(t *task, host string) { hosts[host] = append(hosts[host], t) }
	for _, l := range links {
		due, host := lastDue(l.Slug, now), hostOf(l.Address)
		switch {
		case reserved(host):
			r.report.Reserved++
		case isDue(due, l.DueAt, l.ClaimedAt, now):
			add(&task{slug: l.Slug, address: l.Address, due: due}, host)
		case l.RecordedAt == 0 && l.DueAt == due.UnixMicro():
			r.report.Lost++
		}
	}
	for _, p := range pages {
		due, host := lastDue(p.URL, now), hostOf(p.URL)
		if isDue(due, p.ReadAt, p.ReadAt, now) && !reserved(host) {
			add(&task{address: p.URL, due: due}, host)
		}
	}
	order := func(a, b *task) int {
		return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.slug, b.slug), cmp.Compare(a.address, b.address))
	}
	var queues [][]*task
	for _, q := range hosts {
		slices.SortFunc(q, order)
		queues = append(queues, q)
	}
	slices.SortFunc(queues, func(a, b []*task) int { return order(a[0], b[0]) })
	return queues
}

// lastDue returns the latest due time of the link of a listing, or of a page, that is not after
// now. It is due once in a UTC day, at a fixed time of day; the times of all are spread evenly over
// the day.
func lastDue(key string, now time.Time) time.Time {
	sum := sha256.Sum256([]byte("opportunity link check\x00" + key))
	seconds := binary.BigEndian.Uint64(sum[:8]) % uint64(day/time.Second)
	offset := time.Duration(seconds) * time.Second //nolint:gosec // below a day
	// a UTC day has 24 hours in Go
	at := now.UTC().Truncate(day).Add(offset)
	if at.After(now) {
		at = at.Add(-day)
	}
	return at
}

// isDue reports whether a check is due at a time, after the last one, which was due and started at
// the given times in microseconds.
func isDue(due time.Time, lastDue, started int64, now time.Time) bool {
	return due.UnixMicro() > lastDue && now.Sub(time.UnixMicro(started)) >= minInterval
}

// checkHost checks the links of one host one after another. A link to retry goes to the end of the
// queue.
func (r *run) checkHost(queue []*task) {
	for checked := 0; len(queue) > 0; checked++ {
		// the first of equal tasks
		next := slices.MinFunc(queue, func(a, b *task) int { return a.after.Compare(b.after) })
		queue = slices.DeleteFunc(queue, func(t *task) bool { return t == next })
		if !next.claimed && checked > 0 && r.slowHost(next) {
			r.count(func(p *Report) { p.Deferred++ })
			continue
		}
		if !sleep(r.ctx, next.after.Sub(r.now())) || !r.check(next) {
			r.release(append(queue, next))
			return
		}
		if !next.after.IsZero() {
			queue = append(queue, next)
		}
	}
}

func (r *run) slowHost(t *task) bool {
	u, err := url.Parse(t.address)
	return err == nil && r.host(u).currentGap() > maxDelay
}

// check makes one attempt at a link. It records the outcome or schedules a retry. It returns false
// if the run must end.
func (r *run) check(t *task) bool {
	res, err := r.try(r.ctx, r.hard, t.address, func() error { return r.claim(t) })
	t.attempts++
	switch {
	case errors.Is(err, errClaimed):
		return true
	case err != nil:
		if !errors.Is(err, errStopped) {
			t.claimed = false // release skips it: the claim stays, because the site may have received the request
		}
		return false
	case res.retry && t.attempts < maxAttempts && res.wait <= maxWait:
		t.after = r.now().Add(max(backoff[t.attempts-1], res.wait))
		return true
	}
	t.after = time.Time{}
	if res.unresolved && !r.resolves.Load() {
		r.release([]*task{t})
		r.count(func(p *Report) { p.Unresolved++ })
		return true
	}
	if res.retry && t.attempts > 1 {
		res.note += fmt.Sprintf(" %d attempts.", t.attempts)
	}
	if err = r.record(t, res); err != nil {
		r.fail(err)
		return false
	}
	return true
}

func (r *run) record(t *task, res result) error {
	now := r.now()
	at := now.UTC().Truncate(time.Microsecond)
	if t.slug != "" {
		res = res.judgeText()
		e := api.VerificationEvent{
			Slug: t.slug, CheckedAt: at, CheckType: api.LinkCheck, Outcome: res.outcome,
			SourceURLs: []string{t.address}, Note: sanitizeNote(res.note),
		}
		if err := r.persist(func() error { return r.store.RecordCheck(r.hard, r.id, now, e, res.cause) }); err != nil {
			return err
		}
		r.count(func(p *Report) { p.Outcomes[res.outcome]++ })
	}
	page := reading(t.address, at, res)
	if err := r.persist(func() error { return r.store.SavePage(r.hard, page) }); err != nil {
		return err
	}
	r.count(func(p *Report) { p.Read.add(page) })
	return nil
}

func (r *run) claim(t *task) error {
	if t.claimed || t.slug == "" {
		return nil
	}
	if r.ctx.Err() != nil {
		return errStopped
	}
	var ok bool
	err := r.persist(func() (err error) {
		ok, err = r.store.ClaimLink(r.hard, r.id, t.slug, t.due, r.now())
		return err
	})
	switch {
	case err != nil:
		r.fail(fmt.Errorf("claiming link %s: %w", t.slug, err))
		return errStopped
	case !ok:
		return errClaimed
	}
	t.claimed = true
	return nil
}

// persist calls do until it succeeds, for about half a minute: a result that cannot be recorded is
// lost for the day, and a failed claim ends the run.
func (r *run) persist(do func() error) (err error) {
	for pause := time.Second; pause <= 16*time.Second; pause *= 2 {
		if err = do(); err == nil || !sleep(r.hard, pause) {
			break
		}
	}
	return err
}

// release makes claimed links due again whose retry will not happen in this run.
func (r *run) release(queue []*task) {
	for _, t := range queue {
		if t.claimed {
			_ = r.store.ReleaseLink(r.hard, r.id, t.slug) // if it fails, the link is due again tomorrow
		}
	}
}

func (r *run) count(f func(*Report)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.report)
}

// sanitizeNote replaces everything that is not printable and limits the length. Parts of a note
// come from other people's servers and could contain bytes that a database rejects or a terminal
// interprets.
func sanitizeNote(note string) string {
	runes := []rune(note)
	for i, r := range runes {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			runes[i] = '?'
		}
	}
	return string(runes[:min(len(runes), api.MaxText)])
}
