package opportunity

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// ResponseInfo describes the HTTP response behind a result.
type ResponseInfo struct {
	RequestID string
	// RateLimit is the daily quota after this call.
	RateLimit RateLimit
	// MinuteLimit is the quota of 60 seconds after this call.
	MinuteLimit RateLimit
	// NotModified is set if the API confirmed a cached response with a 304, which is charged like a
	// 200. Meta.GeneratedAt is then the time of the cached response.
	NotModified bool

	etag string
}

// RateLimit is a quota of the account.
type RateLimit struct {
	Limit     int       // calls in a day, or in any 60 seconds
	Remaining int       // calls left
	Reset     time.Time // when more calls are available: for the day, the next midnight UTC
}

// request is a GET of the API.
type request struct {
	path  *url.URL // path and query
	etag  string   // sent as If-None-Match; a 304 has no body then
	fresh bool     // bypass the cache
	proof bool     // a proof of the log, which is public and text
}

// Backoff between attempts. Each wait is a random time between half of the step and the step; the
// steps double.
const (
	firstStep = 500 * time.Millisecond
	lastStep  = 30 * time.Second
)

// maxConnects is the number of attempts to open a connection: an address that accepts none is most
// likely wrong.
const maxConnects = 2

// get sends a request until it succeeds, cannot succeed, or the retry budget is used up. It decodes
// a 200 into out.
func (c *Client) get(ctx context.Context, r request, out any) (ResponseInfo, error) {
	var waited time.Duration
	step := firstStep
	for attempt := 1; ; attempt++ {
		response, err := c.attempt(ctx, r, out)
		failed := new(Error)
		if !errors.As(err, &failed) {
			return response, err
		}
		wait, again := retryIn(failed, step)
		if !again || waited+wait > c.budget || failed.unreachable && attempt >= maxConnects {
			return response, err
		}
		c.retry(Retry{Attempt: attempt, Wait: wait, Err: failed})
		if err := c.sleep(ctx, wait); err != nil {
			return response, fmt.Errorf("opportunity: %w", err)
		}
		waited += wait
		step = min(2*step, lastStep)
	}
}

// retryIn returns the wait before the next attempt, and false if waiting does not help.
func retryIn(e *Error, step time.Duration) (time.Duration, bool) {
	switch {
	case e.Code == CodeMinuteLimitReached && e.RetryAfter > 0:
		return e.RetryAfter, true
	case e.Code == CodeMinuteLimitReached, e.Code == CodeConnectionFailed, e.Status >= http.StatusInternalServerError:
		return max(e.RetryAfter, step/2+rand.N(step/2+1)), true
	}
	return 0, false
}

// attempt sends a request once.
func (c *Client) attempt(ctx context.Context, r request, out any) (ResponseInfo, error) {
	target := c.target(r)
	cached, found := c.cached(r, target)
	var connecting atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { connecting.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { connecting.Store(false) },
	})
	req, err := http.NewRequestWithContext(traced, http.MethodGet, target.String(), nil)
	if err != nil {
		return ResponseInfo{}, err
	}
	if !r.proof {
		req.Header.Set("Authorization", "Bearer "+*c.key)
	}
	req.Header.Set("User-Agent", c.agent)
	if tag := r.etag + cached.ETag; tag != "" { // a request with a tag bypasses the cache
		req.Header.Set("If-None-Match", tag)
	}
	got, err := c.send(req)
	if ctx.Err() != nil {
		return ResponseInfo{}, fmt.Errorf("opportunity: %w", ctx.Err())
	}
	if err != nil {
		return ResponseInfo{}, c.connectionFailed(err, connecting.Load())
	}
	response := got.describe(c.now())
	switch {
	case got.status == http.StatusNotModified && r.etag != "":
		return response, nil
	case got.status == http.StatusNotModified && found:
		got.body = cached.Body
	case got.status == http.StatusOK:
		cached = CacheEntry{response.etag, got.body}
	default:
		return response, responseError(got, c.now())
	}
	if err := r.decode(got.body, out); err != nil {
		return response, invalidResponse(got, "the response is not one of the API: %v", err)
	}
	if c.cache != nil && !r.fresh && cached.ETag != "" && !response.NotModified {
		c.cache.Put(target.String(), cached)
	}
	return response, nil
}

// target returns the URL of a request. The address of the service may have a path.
func (c *Client) target(r request) *url.URL {
	return &url.URL{
		Scheme: c.base.Scheme, Host: c.base.Host, RawQuery: r.path.RawQuery,
		Path: c.base.Path + r.path.Path, RawPath: c.base.EscapedPath() + r.path.EscapedPath(),
	}
}

// connectionFailed returns the Error of an attempt without a complete response. It names the
// address.
func (c *Client) connectionFailed(err error, unreachable bool) *Error {
	reason, inner := err.Error(), new(url.Error)
	if errors.As(err, &inner) { // whose text repeats the URL
		reason = inner.Err.Error()
	}
	message := fmt.Sprintf("no response from %s: %s", c.base, reason)
	return &Error{Code: CodeConnectionFailed, Message: message, cause: err, unreachable: unreachable}
}

func (r request) decode(body []byte, out any) error {
	if !r.proof {
		if err := json.Unmarshal(body, out); err != nil {
			return err
		}
		return out.(checked).check(body)
	}
	if !bytes.HasPrefix(body, []byte(proofVersion+"\n")) {
		return errors.New("it is no proof")
	}
	*out.(*string) = string(body)
	return nil
}

// cached returns the cache entry of a request.
func (c *Client) cached(r request, target *url.URL) (CacheEntry, bool) {
	if c.cache == nil || r.fresh {
		return CacheEntry{}, false
	}
	return c.cache.Get(target.String())
}

// reply is a complete HTTP response.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (c *Client) send(req *http.Request) (reply, error) {
	resp, err := c.http.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	var content io.Reader = resp.Body
	if strings.EqualFold(resp.Header.Get("Content-Encoding"), "x-gzip") { // net/http decodes gzip
		if content, err = gzip.NewReader(resp.Body); err != nil {
			return reply{}, err
		}
	}
	body, err := io.ReadAll(content)
	return reply{resp.StatusCode, resp.Header, body}, err
}

func (r reply) describe(now time.Time) ResponseInfo {
	day := time.Unix(min(r.number("X-RateLimit-Reset"), lastSecond), 0).UTC()
	more := time.Duration(min(r.minute("RateLimit", "t"), maxDelay)) * time.Second
	return ResponseInfo{
		RequestID: r.header.Get("X-Request-Id"),
		RateLimit: RateLimit{int(r.number("X-RateLimit-Limit")), int(r.number("X-RateLimit-Remaining")), day},
		MinuteLimit: RateLimit{int(r.minute("RateLimit-Policy", "q")), int(r.minute("RateLimit", "r")),
			now.UTC().Add(more)},
		NotModified: r.status == http.StatusNotModified,
		etag:        r.header.Get("ETag"),
	}
}

const (
	lastSecond = 253402300799 // of the year 9999, which bounds times
	maxDelay   = 1 << 31      // seconds; RFC 9111 section 1.2.2
)

// retryAfter returns the time of Retry-After, in seconds or as a date (RFC 9110 section 10.2.3), or
// 0 if it is missing or in the past.
func (r reply) retryAfter(now time.Time) time.Duration {
	seconds := r.number("Retry-After")
	if at, err := http.ParseTime(r.header.Get("Retry-After")); err == nil {
		seconds = max(0, int64(math.Ceil(at.Sub(now).Seconds())))
	}
	return time.Duration(min(seconds, maxDelay)) * time.Second
}

// number returns the whole number in a header, or 0 if it has none.
func (r reply) number(header string) int64 { return number(r.header.Get(header)) }

var digits = regexp.MustCompile(`^[0-9]+$`)

// number returns the whole number that a text is, or 0. Numbers that are too large are the largest
// one.
func number(text string) int64 {
	if !digits.MatchString(text) {
		return 0
	}
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// minute returns a parameter of the minute in a header such as `"minute";r=59;t=60,
// "day";r=999;t=52200`, or 0 if it is missing.
func (r reply) minute(header, parameter string) int64 {
	found := regexp.MustCompile(`"minute"[^,]*;` + parameter + `=([0-9]+)`).FindStringSubmatch(r.header.Get(header))
	if found == nil {
		return 0
	}
	return number(found[1])
}
