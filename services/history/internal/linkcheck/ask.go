package linkcheck

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// errStopped says that a run ended before a request was sent.
var errStopped = errors.New("stopped")

func stopped(err error) bool { return errors.Is(err, errStopped) }

// errCut says that a run ended while a request was under way. What would have come of it is not known.
var errCut = errors.New("cut off")

// ended reports whether err is that of a run and not of a host.
func ended(err error) bool { return stopped(err) || errors.Is(err, errCut) }

// serverError is an answer of 5xx where rules were wanted.
type serverError int

func (e serverError) Error() string { return fmt.Sprintf("status %d", int(e)) }

// host is a name to which one request is sent at a time, with a gap between.
type host struct {
	turn chan struct{}

	mu    sync.Mutex
	gap   time.Duration
	ready time.Time // when the next request may begin
}

type hosts struct {
	gap  time.Duration
	from time.Time // when the first request to any may begin: the process before this one may have asked a moment ago
	mu   sync.Mutex
	all  map[string]*host
}

func (h *hosts) of(u *url.URL) *host {
	h.mu.Lock()
	defer h.mu.Unlock()
	name := hostname(u)
	if h.all[name] == nil {
		h.all[name] = &host{turn: make(chan struct{}, 1), gap: h.gap, ready: h.from}
	}
	return h.all[name]
}

// slow makes the gap at least d, as the host asked for.
func (h *host) slow(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d > h.gap {
		h.ready = h.ready.Add(min(d, maxDelay) - min(h.gap, maxDelay))
		h.gap = d
	}
}

// wants is the gap in force.
func (h *host) wants() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.gap
}

// take waits for the host's turn and for the gap since the last request; done gives the turn on.
func (h *host) take(ctx context.Context, now func() time.Time) (done func(), err error) {
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, errStopped
	}
	h.mu.Lock()
	wait := h.ready.Sub(now())
	h.mu.Unlock()
	if !sleep(ctx, wait) {
		<-h.turn
		return nil, errStopped
	}
	return func() {
		h.mu.Lock()
		h.ready = now().Add(min(h.gap, maxDelay))
		h.mu.Unlock()
		<-h.turn
	}, nil
}

// sleep waits for d, and reports false if ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// answer is what is kept of a response.
type answer struct {
	status   int
	header   http.Header
	location *url.URL // of a redirect whose address can be read
	body     []byte   // at most what was asked for; nothing of a link
}

// ask sends one GET when the turn of its host has come. ctx bounds the waiting, hard and the time limit of a request the rest.
// first, unless nil, is called right before the request is sent; its error keeps it from being sent.
//
// It is a GET and not a HEAD, because many sites answer HEAD with an error, or differently, and some take it for the sign of an
// unwanted program. What it costs the site beyond a HEAD is small: the connection is closed once the headers are there.
func (c *Checker) ask(ctx, hard context.Context, u *url.URL, read int64, first func() error) (answer, error) {
	done, err := c.hosts.of(u).take(ctx, c.now)
	if err != nil {
		return answer{}, err
	}
	defer done()
	select {
	case c.running <- struct{}{}:
		defer func() { <-c.running }()
	case <-ctx.Done():
		return answer{}, errStopped
	}
	if first != nil {
		if err := first(); err != nil {
			return answer{}, err
		}
	}
	limited, cancel := context.WithTimeout(hard, c.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(limited, http.MethodGet, (&url.URL{
		Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery, ForceQuery: u.ForceQuery,
	}).String(), nil)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("User-Agent", c.agent)
	req.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	req.Header.Set("Accept-Language", "en-CA,en;q=0.9,fr-CA;q=0.5")
	// A round trip follows no redirect and has no cookies and no Referer.
	resp, err := c.transport.RoundTrip(req)
	if hard.Err() != nil {
		if err == nil {
			resp.Body.Close()
		}
		return answer{}, errCut
	}
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, header: resp.Header}
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		if to, err := resp.Location(); err == nil {
			a.location = to
		}
	}
	if read > 0 && a.status/100 == 2 {
		a.body, err = io.ReadAll(io.LimitReader(resp.Body, read))
	}
	return a, err
}
