// Package operator speaks to the admin listener of a gateway: a client with a method for each act, and the commands that call it.
package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
)

// Client acts as an operator through the admin listener. Its methods also return the answer as it came, for --output json.
type Client struct {
	URL       string // of the admin listener
	Token     string
	TokenFile string // the file that Token was read from; empty if it came from the environment
	Actor     string // on whose behalf, for the record
	HTTP      *http.Client
}

// KeyRequest asks for a key. Without an Account one is made for it.
type KeyRequest struct {
	Tier      api.Tier `json:"tier,omitempty"` // empty with Account: the account's
	UseCase   string   `json:"useCase"`
	Account   string   `json:"account,omitempty"`
	ExpiresIn string   `json:"expiresIn,omitempty"` // a Go duration; empty: the longest life a key may have
	Test      bool     `json:"test"`                // prefix oda_test_
}

// Import sends a listings file.
func (c Client) Import(ctx context.Context, file io.Reader) (api.ImportReport, []byte, error) {
	return ask[api.ImportReport](ctx, c, http.MethodPost, "/listings/import", file)
}

// Preview sends a listings file to learn what Import would do; it changes nothing.
func (c Client) Preview(ctx context.Context, file io.Reader) (api.ImportPreview, []byte, error) {
	return ask[api.ImportPreview](ctx, c, http.MethodPost, "/listings/import?dryRun=true", file)
}

// Append sends an events file.
func (c Client) Append(ctx context.Context, file io.Reader) (api.AppendReport, []byte, error) {
	return ask[api.AppendReport](ctx, c, http.MethodPost, "/events/append", file)
}

// Due lists what is due for a factual review, or will be within that time.
func (c Client) Due(ctx context.Context, within time.Duration) (api.DueList, []byte, error) {
	text := ""
	if within > 0 {
		text = within.String()
	}
	return ask[api.DueList](ctx, c, http.MethodGet, "/reviews/due"+query("within", text), nil)
}

// Sheet is what a reviewer needs to know of a listing.
func (c Client) Sheet(ctx context.Context, id string) (api.ReviewSheet, []byte, error) {
	return ask[api.ReviewSheet](ctx, c, http.MethodGet, "/reviews/records/"+url.PathEscape(id), nil)
}

// ListingList lists a page of listings. filters are name and value, one after the other; empty values are left out.
func (c Client) ListingList(ctx context.Context, page Page, filters ...string) (api.ListingList, []byte, error) {
	return ask[api.ListingList](ctx, c, http.MethodGet, "/listings"+page.query(filters...), nil)
}

// Listing returns everything about one listing.
func (c Client) Listing(ctx context.Context, id string) (api.ListingDetail, []byte, error) {
	return ask[api.ListingDetail](ctx, c, http.MethodGet, "/listings/"+url.PathEscape(id), nil)
}

// CatalogStatus returns what consumers can see.
func (c Client) CatalogStatus(ctx context.Context) (api.CatalogStatus, []byte, error) {
	return ask[api.CatalogStatus](ctx, c, http.MethodGet, "/catalog", nil)
}

// Export writes all listings to out, in the form that Import reads.
func (c Client) Export(ctx context.Context, out io.Writer) error {
	resp, err := c.do(ctx, http.MethodGet, "/listings/export", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(out, resp.Body); err != nil {
		return unreachable(c.URL, err)
	}
	return nil
}

// Publish makes the listings public; all means every private one. dry only counts them. In the report, Line is the position of an id.
func (c Client) Publish(ctx context.Context, ids []string, all, dry bool) (api.ImportReport, []byte, error) {
	want := map[string]any{"ids": ids}
	if all {
		want = map[string]any{"all": true}
	}
	path := "/listings/publish"
	if dry {
		path += "?dryRun=true"
	}
	return ask[api.ImportReport](ctx, c, http.MethodPost, path, encoded(want))
}

// Withdraw takes the listings out of the public's sight; otherwise as Publish.
func (c Client) Withdraw(ctx context.Context, ids []string) (api.ImportReport, []byte, error) {
	return ask[api.ImportReport](ctx, c, http.MethodPost, "/listings/withdraw", encoded(map[string]any{"ids": ids}))
}

// IssueKey issues a key.
func (c Client) IssueKey(ctx context.Context, want KeyRequest) (api.IssuedKey, []byte, error) {
	return ask[api.IssuedKey](ctx, c, http.MethodPost, "/keys", encoded(want))
}

// KeyList lists a page of the keys of an account, or of all of them.
func (c Client) KeyList(ctx context.Context, account string, page Page) (api.KeyList, []byte, error) {
	return ask[api.KeyList](ctx, c, http.MethodGet, "/keys"+page.query("account", account), nil)
}

// RevokeKey ends a key for good. Where leaked, its holder is told that others may have it.
func (c Client) RevokeKey(ctx context.Context, id string, leaked bool) ([]byte, error) {
	var body io.Reader
	if leaked {
		body = encoded(map[string]any{"leaked": true})
	}
	_, raw, err := ask[any](ctx, c, http.MethodPost, "/keys/"+url.PathEscape(id)+"/revoke", body)
	return raw, err
}

// ImportKeys sends a file of keys of another form.
func (c Client) ImportKeys(ctx context.Context, file io.Reader) (api.ImportReport, []byte, error) {
	return ask[api.ImportReport](ctx, c, http.MethodPost, "/keys/import", file)
}

// KeyRequests lists what people ask for and nobody has decided on or, with all, every request.
func (c Client) KeyRequests(ctx context.Context, all bool, p Page) (api.KeyRequestList, []byte, error) {
	every := ""
	if all {
		every = "true"
	}
	return ask[api.KeyRequestList](ctx, c, http.MethodGet, "/keys/requests"+p.query("all", every), nil)
}

// ApproveKey lets a person collect the key that they requested. It returns the request with its decision, which may be an earlier one.
func (c Client) ApproveKey(ctx context.Context, id string) (api.KeyRequest, []byte, error) {
	return ask[api.KeyRequest](ctx, c, http.MethodPost, "/keys/requests/"+url.PathEscape(id)+"/approve", nil)
}

// DeclineKey declines a person's request for a key; otherwise like ApproveKey.
func (c Client) DeclineKey(ctx context.Context, id, reason string) (api.KeyRequest, []byte, error) {
	return ask[api.KeyRequest](ctx, c, http.MethodPost, "/keys/requests/"+url.PathEscape(id)+"/decline",
		encoded(map[string]any{"reason": reason}))
}

// AccountList lists a page of the accounts whose person has the address, or one with this part in it; of all where it is empty.
func (c Client) AccountList(ctx context.Context, email string, page Page) (api.AccountList, []byte, error) {
	return ask[api.AccountList](ctx, c, http.MethodGet, "/accounts"+page.query("email", email), nil)
}

// Account is everything about an account.
func (c Client) Account(ctx context.Context, id string) (api.AccountDetail, []byte, error) {
	return ask[api.AccountDetail](ctx, c, http.MethodGet, "/accounts/"+url.PathEscape(id), nil)
}

// Audit reads the audit log, newest first. filters are name and value, one after the other; empty values are left out.
func (c Client) Audit(ctx context.Context, filters ...string) (api.AuditList, []byte, error) {
	return ask[api.AuditList](ctx, c, http.MethodGet, "/audit"+query(filters...), nil)
}

// Page is a piece of a list: at most Limit entries, 0 for as many as there may be, after the id After.
type Page struct {
	After string
	Limit int
}

func (p Page) query(filters ...string) string {
	limit := ""
	if p.Limit != 0 {
		limit = strconv.Itoa(p.Limit)
	}
	return query(append(filters, "after", p.After, "limit", limit)...)
}

// query writes names and values, one after the other, without those that are empty.
func query(pairs ...string) string {
	values := url.Values{}
	for pair := range slices.Chunk(pairs, 2) {
		if len(pair) == 2 && pair[1] != "" {
			values.Set(pair[0], pair[1])
		}
	}
	if len(values) == 0 {
		return ""
	}
	return "?" + values.Encode()
}

// Suspend stops or, with resume, restores the access of an account.
func (c Client) Suspend(ctx context.Context, account, reason string, resume bool) ([]byte, error) {
	verb := "suspend"
	if resume {
		verb = "resume"
	}
	_, raw, err := ask[any](ctx, c, http.MethodPost, "/accounts/"+url.PathEscape(account)+"/"+verb,
		encoded(map[string]any{"reason": reason}))
	return raw, err
}

// Grant gives an account a tier.
func (c Client) Grant(ctx context.Context, account string, tier api.Tier) ([]byte, error) {
	_, raw, err := ask[any](ctx, c, http.MethodPost, "/accounts/"+url.PathEscape(account)+"/grant",
		encoded(map[string]any{"tier": tier}))
	return raw, err
}

func encoded(v any) io.Reader {
	body, _ := json.Marshal(v) // maps and structs of strings and booleans
	return bytes.NewReader(body)
}

// ask makes one call and decodes its answer, which it also gives as it came.
func ask[T any](ctx context.Context, c Client, method, path string, body io.Reader) (out T, raw []byte, err error) {
	resp, err := c.do(ctx, method, path, body)
	if err != nil {
		return out, nil, err
	}
	defer resp.Body.Close()
	if raw, err = io.ReadAll(resp.Body); err != nil {
		return out, nil, unreachable(c.URL, err)
	}
	if raw = bytes.TrimSpace(raw); len(raw) == 0 {
		return out, raw, nil
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, nil, unexpected(c.URL, resp.StatusCode, resp.Header)
	}
	return out, raw, nil
}

func (c Client) do(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.URL, "/")+"/operator/v1"+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.Token)
	req.Header.Set(api.ActorHeader, c.Actor)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, unreachable(c.URL, err)
	}
	if resp.StatusCode/100 == 2 || resp.StatusCode == http.StatusConflict { // a conflict is reported like a file that is refused
		return resp, nil
	}
	defer resp.Body.Close()
	var e api.Error
	if text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20)); err != nil || json.Unmarshal(text, &e) != nil || e.Error.Code == "" {
		return nil, unexpected(c.URL, resp.StatusCode, resp.Header)
	}
	return nil, c.rejected(resp, e)
}
