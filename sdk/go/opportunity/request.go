package opportunity

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"time"
)

// Response describes the HTTP response behind a result.
type Response struct {
	RequestID string
	// RateLimit is the daily quota after this call.
	RateLimit RateLimit
	// MinuteLimit is the quota of 60 seconds after this call.
	MinuteLimit RateLimit
	// NotModified is set if the API confirmed a cached response with a 304, which is charged like a 200. Meta.GeneratedAt is then the
	// time of the cached response.
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

// Backoff between attempts. Each wait is a random time between half of the step and the step; the steps double.
const (
	firstStep = 500 * time.Millisecond
	lastStep  = 30 * time.Second
)

// get sends a request until it succeeds, cannot succeed, or the retry budget is used up. It decodes a 200 into out.
func (c *Client) get(ctx context.Context, r request, out any) (Response, error) {
	var waited time.Duration
	step := firstStep
	for attempt := 1; ; attempt++ {
		response, err := c.attempt(ctx, r, out)
		failed := new(Error)
		if !errors.As(err, &failed) {
			return response, err
		}
		wait, again := retryIn(failed, step)
		if !again || waited+wait > c.budget {
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
func (c *Client) attempt(ctx context.Context, r request, out any) (Response, error) {
	target := c.base.ResolveReference(r.path)
	cached, found := c.cached(r, target)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return Response{}, err
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
		return Response{}, fmt.Errorf("opportunity: %w", ctx.Err())
	}
	if err != nil {
		return Response{}, &Error{Code: CodeConnectionFailed, Message: err.Error(), cause: err}
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
		return response, responseError(got)
	}
	if err := r.decode(got.body, out); err != nil {
		return response, invalidResponse(got, "the response cannot be decoded: %v", err)
	}
	if c.cache != nil && !r.fresh && cached.ETag != "" && !response.NotModified {
		c.cache.Put(target.String(), cached)
	}
	return response, nil
}

func (r request) decode(body []byte, out any) error {
	if !r.proof {
		return json.Unmarshal(body, out)
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
	body, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, body}, err
}

func (r reply) describe(now time.Time) Response {
	more := time.Duration(r.minute("RateLimit", "t")) * time.Second
	return Response{
		RequestID: r.header.Get("X-Request-Id"),
		RateLimit: RateLimit{
			r.number("X-RateLimit-Limit"), r.number("X-RateLimit-Remaining"), time.Unix(int64(r.number("X-RateLimit-Reset")), 0).UTC(),
		},
		MinuteLimit: RateLimit{r.minute("RateLimit-Policy", "q"), r.minute("RateLimit", "r"), now.UTC().Add(more)},
		NotModified: r.status == http.StatusNotModified,
		etag:        r.header.Get("ETag"),
	}
}

// number returns the value of a header, or 0 if it is missing.
func (r reply) number(header string) int {
	n, err := strconv.Atoi(r.header.Get(header))
	if err != nil {
		return 0
	}
	return n
}

// minute returns a parameter of the minute in a header such as `"minute";r=59;t=60, "day";r=999;t=52200`, or 0 if it is missing.
func (r reply) minute(header, parameter string) int {
	found := regexp.MustCompile(`"minute"[^,]*;` + parameter + `=([0-9]+)`).FindStringSubmatch(r.header.Get(header))
	if found == nil {
		return 0
	}
	n, _ := strconv.Atoi(found[1])
	return n
}
