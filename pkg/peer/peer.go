// Package peer implements calls between the services: JSON over HTTP with the internal token.
package peer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
)

// Tokens holds the internal tokens. Clients send the first and servers accept all, so that a new token can be rolled out before the old
// one is removed.
type Tokens struct {
	Values []string `env:"OPPORTUNITY_INTERNAL_TOKENS,required,notEmpty" doc:"Secret. Tokens for calls between services, comma-separated. Services send the first and accept all."`
}

// Validate returns an error if a token is too short.
func (t Tokens) Validate() error {
	for _, v := range t.Values {
		if len(v) < 32 {
			return errors.New("OPPORTUNITY_INTERNAL_TOKENS: each token must have at least 32 characters")
		}
	}
	return nil
}

// Accept reports whether an Authorization header has one of the tokens. It compares in constant time.
func (t Tokens) Accept(authorization string) bool {
	sent, ok := strings.CutPrefix(authorization, "Bearer ")
	digest := sha256.Sum256([]byte(sent))
	match := 0
	for _, v := range t.Values {
		want := sha256.Sum256([]byte(v))
		match |= subtle.ConstantTimeCompare(digest[:], want[:])
	}
	return ok && match == 1
}

// Client is a client of one service.
type Client struct {
	base  string
	token string
	http  *http.Client
}

// maxResponse limits the size of a response body, in bytes.
const maxResponse = 256 << 20

// New returns a client of the service at base, a URL without a trailing slash. It has no timeout of its own; use contexts.
func New(base string, tokens Tokens, transport http.RoundTripper) *Client {
	return &Client{base: base, token: tokens.Values[0], http: &http.Client{Transport: transport}}
}

// Transport returns a transport for connections between services. It keeps many connections open to each host and fails fast if a host
// is unreachable.
func Transport() *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: time.Second, KeepAlive: 15 * time.Second}).DialContext,
		MaxIdleConns:        512,
		MaxIdleConnsPerHost: 256,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true,
	}
}

// StatusError is a response with a status other than 2xx, with the code and message of its body.
type StatusError struct {
	Status  int
	Code    string
	Message string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("peer responded with status %d %s: %s", e.Status, e.Code, e.Message)
}

// Get requests path and decodes the response into out. A nil out ignores the body. It returns problem.Unavailable if the peer is
// unreachable or responds with 503, and a *StatusError for any other status that is not 2xx.
func (c *Client) Get(ctx context.Context, path string, out any) error {
	return c.do(ctx, http.MethodGet, path, nil, out)
}

// Post posts in as JSON. Results are as for Get.
func (c *Client) Post(ctx context.Context, path string, in, out any) error {
	return c.send(ctx, http.MethodPost, path, in, out)
}

// Put puts in as JSON at path. Results are as for Get.
func (c *Client) Put(ctx context.Context, path string, in, out any) error {
	return c.send(ctx, http.MethodPut, path, in, out)
}

func (c *Client) send(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return c.do(ctx, method, path, body, out)
}

func (c *Client) do(ctx context.Context, method, path string, body []byte, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return problem.Unavailable(err)
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	if err != nil {
		return problem.Unavailable(err)
	}
	if resp.StatusCode/100 != 2 {
		var e api.Error
		_ = json.Unmarshal(reply, &e) // a body from another server leaves code and message empty
		failed := &StatusError{resp.StatusCode, e.Error.Code, e.Error.Message}
		if resp.StatusCode == http.StatusServiceUnavailable {
			return problem.Unavailable(failed)
		}
		return failed
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(reply, out)
}

// NotReadyError is the error of CheckReady if the service responds but is not ready.
type NotReadyError struct {
	Base    string
	Status  int
	Missing []string // conditions that do not hold
}

func (e *NotReadyError) Error() string {
	text := fmt.Sprintf("%s is not ready: status %d", e.Base, e.Status)
	if len(e.Missing) > 0 {
		text += ", missing: " + strings.Join(e.Missing, ", ")
	}
	return text
}

// ErrTokenRejected means that a service does not accept the internal token of another one.
var ErrTokenRejected = errors.New("the internal token was rejected: the services have different OPPORTUNITY_INTERNAL_TOKENS")

// CheckReady returns an error unless the service at base is ready: a *NotReadyError if it responds.
func CheckReady(ctx context.Context, base string) error { return checkReady(ctx, base, "") }

// CheckReady is like the function CheckReady, and returns ErrTokenRejected unless the service accepts the first token.
func (t Tokens) CheckReady(ctx context.Context, base string) error {
	return checkReady(ctx, base, "Bearer "+t.Values[0])
}

// checkReady ignores proxy settings in the environment, because a proxy would respond in place of the service.
func checkReady(ctx context.Context, base, authorization string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/readyz", nil)
	if err != nil {
		return err
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	transport := Transport()
	transport.DisableKeepAlives = true
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusUnauthorized:
		return fmt.Errorf("%s: %w", base, ErrTokenRejected)
	}
	failed := &NotReadyError{Base: base, Status: resp.StatusCode}
	_ = json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(failed) // a body from another server leaves it empty
	return failed
}

// Readiness returns the handler of /readyz. It responds with 401 to a service whose token is wrong, and otherwise calls ready: the probes
// of the platform have no token.
func (t Tokens) Readiness(ready http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if sent := r.Header.Get("Authorization"); sent != "" && !t.Accept(sent) {
			http.Error(w, ErrTokenRejected.Error(), http.StatusUnauthorized)
			return
		}
		ready.ServeHTTP(w, r)
	})
}
