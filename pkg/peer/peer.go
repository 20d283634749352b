// Package peer is how services of this project call each other: JSON over HTTP with the internal token.
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

// Tokens are the internal tokens in force: the first is sent, all are accepted, so that a new one can be rolled out before the
// old one is taken away.
type Tokens struct {
	Values []string `env:"OPPORTUNITY_INTERNAL_TOKENS,required,notEmpty" doc:"Secret. Tokens by which services know each other, comma-separated: the first is sent, all are accepted."`
}

// Validate refuses tokens that could be guessed.
func (t Tokens) Validate() error {
	for _, v := range t.Values {
		if len(v) < 32 {
			return errors.New("OPPORTUNITY_INTERNAL_TOKENS: each token must have at least 32 characters")
		}
	}
	return nil
}

// Accept reports whether an Authorization header carries one of the tokens, in a time that does not depend on which
// characters match.
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

// Client calls one peer.
type Client struct {
	base  string
	token string
	http  *http.Client
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 256 << 20

// New makes a client of the service at base, a URL without a trailing slash. Deadlines come from the contexts of the calls.
func New(base string, tokens Tokens, transport http.RoundTripper) *Client {
	return &Client{base: base, token: tokens.Values[0], http: &http.Client{Transport: transport}}
}

// Transport is what connections between services are made with: many kept open to each host, quick to give up on a dead one.
func Transport() *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: time.Second, KeepAlive: 15 * time.Second}).DialContext,
		MaxIdleConns:        512,
		MaxIdleConnsPerHost: 256,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true,
	}
}

// StatusError is a peer's answer other than 2xx, with the code and message of its body.
type StatusError struct {
	Status  int
	Code    string
	Message string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("peer answered %d %s: %s", e.Status, e.Code, e.Message)
}

// Get asks for path and decodes the answer into out; nil takes an answer without a body. A peer that cannot be reached, or that
// answers 503, is problem.Unavailable; any other answer that is not 2xx is a *StatusError.
func (c *Client) Get(ctx context.Context, path string, out any) error {
	return c.do(ctx, http.MethodGet, path, nil, out)
}

// Post sends in as JSON; otherwise as Get.
func (c *Client) Post(ctx context.Context, path string, in, out any) error {
	return c.send(ctx, http.MethodPost, path, in, out)
}

// Put sends in as JSON, to be what is at path; otherwise as Get.
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
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return problem.Unavailable(err)
	}
	if resp.StatusCode/100 != 2 {
		var e api.Error
		_ = json.Unmarshal(answer, &e) // an answer that is not ours leaves code and message empty
		failed := &StatusError{resp.StatusCode, e.Error.Code, e.Error.Message}
		if resp.StatusCode == http.StatusServiceUnavailable {
			return problem.Unavailable(failed)
		}
		return failed
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}

// CheckReady reports an error unless the service at base is ready. It asks directly: a proxy that the environment names would
// answer for the service.
func CheckReady(ctx context.Context, base string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/readyz", nil)
	if err != nil {
		return err
	}
	transport := Transport()
	transport.DisableKeepAlives = true
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s is not ready: status %d", base, resp.StatusCode)
	}
	return nil
}
