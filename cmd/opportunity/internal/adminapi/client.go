// Package adminapi is a client of the operator API, which the admin listener of a gateway serves.
package adminapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"opportunity.internal/pkg/api"
)

// Client acts as an operator through the admin listener.
type Client struct {
	URL       string // of the admin listener
	Token     string
	TokenFile string // the file that Token was read from; empty if it came from the environment
	Actor     string // operator's name for the audit log; without it, every method except GET fails
	HTTP      *http.Client
}

// Input has the variable parts of a request.
type Input struct {
	ID      string // of the path
	Query   url.Values
	Body    any    // a file, or a value that is encoded as JSON; nil for none
	Version string // of the listing that is edited
}

// KeyRequest describes a key to issue. Without Account, the key gets a new account.
type KeyRequest struct {
	Tier      api.Tier `json:"tier,omitempty"` // empty with Account: the account's tier applies
	UseCase   string   `json:"useCase"`
	Account   string   `json:"account,omitempty"`
	ExpiresIn string   `json:"expiresIn,omitempty"` // Go duration; empty: the maximum lifetime
	Test      bool     `json:"test"`                // prefix oda_test_
}

// Query returns parameters from alternating names and values. It leaves out empty values.
func Query(pairs ...string) url.Values {
	values := url.Values{}
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			values.Set(pair[0], pair[1])
		}
	}
	return values
}

// Call makes the call. It returns the response both decoded and unmodified.
func (r Route[T]) Call(ctx context.Context, c Client, in Input) (out T, raw []byte, err error) {
	resp, err := c.do(ctx, r.method, r.path, in)
	if err != nil {
		return out, nil, err
	}
	defer resp.Body.Close()
	raw, err = io.ReadAll(resp.Body)
	if err != nil {
		return out, nil, Unreachable(c.URL, err)
	}
	if raw = bytes.TrimSpace(raw); len(raw) == 0 {
		return out, raw, nil
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, nil, Unexpected(c.URL, resp.StatusCode, resp.Header)
	}
	return out, raw, nil
}

// Export writes all listings to out, in the form of an import.
func (c Client) Export(ctx context.Context, out io.Writer) error {
	resp, err := c.do(ctx, http.MethodGet, "/listings/export", Input{})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(out, resp.Body); err != nil {
		return Unreachable(c.URL, err)
	}
	return nil
}

func (c Client) do(ctx context.Context, method, path string, in Input) (*http.Response, error) {
	if c.Actor == "" && method != http.MethodGet {
		return nil, ErrNoActor
	}
	address := strings.TrimSuffix(c.URL, "/") + "/operator/v1" + strings.Replace(path, "{id}", url.PathEscape(in.ID), 1)
	if len(in.Query) > 0 {
		address += "?" + in.Query.Encode()
	}
	body, isFile := in.Body.(io.Reader)
	if !isFile && in.Body != nil {
		text, _ := json.Marshal(in.Body) // cannot fail: texts, booleans and valid JSON
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.Token)
	req.Header.Set(api.ActorHeader, c.Actor)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if in.Version != "" {
		req.Header.Set("If-Match", `"`+in.Version+`"`)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, Unreachable(c.URL, err)
	}
	if resp.StatusCode/100 == 2 || resp.StatusCode == http.StatusConflict ||
		resp.StatusCode == http.StatusPreconditionFailed {
		return resp, nil // a conflict has a report, like a rejected file
	}
	defer resp.Body.Close()
	var e api.OperatorError
	if text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20)); err != nil || json.Unmarshal(text, &e) != nil ||
		e.Error.Code == "" {
		return nil, Unexpected(c.URL, resp.StatusCode, resp.Header)
	}
	return nil, c.rejected(resp, e.Error)
}
