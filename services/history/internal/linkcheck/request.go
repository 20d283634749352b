package linkcheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"opportunity.internal/services/history/internal/pagetext"
)

var (
	// errStopped means that the run ended before the request was sent.
	errStopped = errors.New("stopped")
	// errInterrupted means that the run ended during the request, so the outcome is unknown.
	errInterrupted = errors.New("interrupted")
)

// ended reports whether err was caused by the end of the run, not by a host.
func ended(err error) bool { return errors.Is(err, errStopped) || errors.Is(err, errInterrupted) }

// serverError is a response of 5xx where rules were wanted.
type serverError int

func (e serverError) Error() string { return fmt.Sprintf("status %d", int(e)) }

// host limits the requests to one host name: one at a time, with a gap in between.
type host struct {
	lock chan struct{}

	mu    sync.Mutex
	gap   time.Duration
	ready time.Time // earliest start of the next request
}

func (c *Checker) host(u *url.URL) *host {
	h, _ := c.hosts.LoadOrStore(hostname(u), &host{lock: make(chan struct{}, 1), gap: c.cfg.Gap, ready: c.start})
	return h.(*host)
}

func (h *host) raiseGap(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d > h.gap {
		h.ready = h.ready.Add(min(d, maxDelay) - min(h.gap, maxDelay))
		h.gap = d
	}
}

func (h *host) currentGap() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.gap
}

// acquire waits for the lock of the host and for the gap since its last request. done releases the
// lock.
func (h *host) acquire(ctx context.Context, now func() time.Time) (done func(), err error) {
	select {
	case h.lock <- struct{}{}:
	case <-ctx.Done():
		return nil, errStopped
	}
	h.mu.Lock()
	wait := h.ready.Sub(now())
	h.mu.Unlock()
	if !sleep(ctx, wait) {
		<-h.lock
		return nil, errStopped
	}
	return func() {
		h.mu.Lock()
		h.ready = now().Add(min(h.gap, maxDelay))
		h.mu.Unlock()
		<-h.lock
	}, nil
}

// sleep waits for d. It returns false if ctx ends first.
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

type response struct {
	status   int
	header   http.Header
	location *url.URL       // of a redirect with a valid URL
	body     []byte         // of a 2xx response to a request for rules, up to maxRobotsSize
	page     *pagetext.Page // of a 2xx response to a request for a page; nil if it has no text
	unread   string         // why it has none, as a sentence
}

// get sends one GET request, for a page or for rules, after it has acquired the host. ctx limits
// the wait; hard and the configured timeout limit the request. jar has the cookies of the check,
// and gets those of the response; nil sends none. first, unless nil, runs right before the request;
// if it returns an error, get sends no request and returns that error.
//
// The method is GET because many sites respond to HEAD with an error or differently, and some take
// it for an unwanted program. get parses a page before it returns, so that only as many bodies are
// in memory as there are concurrent requests.
func (c *Checker) get(ctx, hard context.Context, u *url.URL, page bool, jar http.CookieJar,
	first func() error) (response, error) {
	done, err := c.host(u).acquire(ctx, c.now)
	if err != nil {
		return response{}, err
	}
	defer done()
	select {
	case c.running <- struct{}{}:
		defer func() { <-c.running }()
	case <-ctx.Done():
		return response{}, errStopped
	}
	if first != nil {
		if err := first(); err != nil {
			return response{}, err
		}
	}
	limited, cancel := context.WithTimeout(hard, c.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(limited, http.MethodGet, (&url.URL{
		Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery,
		ForceQuery: u.ForceQuery,
	}).String(), nil)
	if err != nil {
		return response{}, err
	}
	req.Header.Set("User-Agent", c.agent)
	req.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	req.Header.Set("Accept-Language", "en-CA,en;q=0.9,fr-CA;q=0.5")
	if page {
		req.Header.Set("Accept-Encoding", "gzip")
	}
	if jar != nil {
		for _, c := range jar.Cookies(u) {
			req.AddCookie(c)
		}
	}
	// RoundTrip follows no redirects and sends no Referer.
	resp, err := c.transport.RoundTrip(req)
	if hard.Err() != nil {
		if err == nil {
			resp.Body.Close()
		}
		return response{}, errInterrupted
	}
	if !resolverFailed(err) {
		c.resolves.Store(true)
	}
	if err != nil {
		return response{}, err
	}
	defer resp.Body.Close()
	if jar != nil {
		jar.SetCookies(u, resp.Cookies())
	}
	a := response{status: resp.StatusCode, header: resp.Header}
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect,
		http.StatusPermanentRedirect:
		a.location = resolveLocation(u, resp.Header.Get("Location"))
	}
	switch {
	case a.status/100 != 2:
	case page:
		a.page, a.unread = readPage(resp)
	default:
		a.body, err = io.ReadAll(io.LimitReader(resp.Body, maxRobotsSize))
		if len(a.body) == maxRobotsSize { // the last line may be incomplete
			a.body = a.body[:bytes.LastIndexAny(a.body, "\r\n")+1]
		}
	}
	if hard.Err() != nil {
		return response{}, errInterrupted
	}
	return a, err
}
