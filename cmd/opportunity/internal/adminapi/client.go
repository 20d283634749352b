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
	"strconv"
	"strings"

	"opportunity.internal/pkg/api"
)

// Client acts as an operator through the admin listener. Its methods also return the unmodified
// response, for --output json.
type Client struct {
	URL       string // of the admin listener
	Token     string
	TokenFile string // the file that Token was read from; empty if it came from the environment
	Actor     string // operator's name for the audit log; without it, every method except GET fails
	HTTP      *http.Client
}

// KeyRequest describes a key to issue. Without Account, the key gets a new account.
type KeyRequest struct {
	Tier      api.Tier `json:"tier,omitempty"` // empty with Account: the account's tier applies
	UseCase   string   `json:"useCase"`
	Account   string   `json:"account,omitempty"`
	ExpiresIn string   `json:"expiresIn,omitempty"` // Go duration; empty: the maximum lifetime
	Test      bool     `json:"test"`                // prefix oda_test_
}

// Import sends a listings file. If sha256 is not empty, it must be that of the file's dry run. If
// ask is set and the file would publish several listings, one of them never reviewed, nothing
// changes, and the report only counts.
func (c Client) Import(ctx context.Context, file io.Reader, sha256 string, ask bool) (api.ImportReport, []byte, error) {
	asks := ""
	if ask {
		asks = "true"
	}
	return call[api.ImportReport](ctx, c, http.MethodPost, "/listings/import"+query("sha256", sha256, "ask", asks), file)
}

// Preview returns what Import would do with a listings file. It changes nothing.
func (c Client) Preview(ctx context.Context, file io.Reader) (api.ImportReport, []byte, error) {
	return call[api.ImportReport](ctx, c, http.MethodPost, "/listings/import?dryRun=true", file)
}

// Append sends an events file.
func (c Client) Append(ctx context.Context, file io.Reader) (api.AppendReport, []byte, error) {
	return call[api.AppendReport](ctx, c, http.MethodPost, "/events/append", file)
}

// Sheet returns the review sheet of a listing.
func (c Client) Sheet(ctx context.Context, id string) (api.ReviewSheet, []byte, error) {
	return call[api.ReviewSheet](ctx, c, http.MethodGet, "/reviews/records/"+url.PathEscape(id), nil)
}

// ListingList lists a page of listings. filters are name and value, one after the other; empty
// values are left out.
func (c Client) ListingList(ctx context.Context, page Page, filters ...string) (api.ListingList, []byte, error) {
	return call[api.ListingList](ctx, c, http.MethodGet, "/listings"+page.query(filters...), nil)
}

// Listing returns everything about one listing.
func (c Client) Listing(ctx context.Context, id string) (api.ListingDetail, []byte, error) {
	return call[api.ListingDetail](ctx, c, http.MethodGet, "/records/"+url.PathEscape(id), nil)
}

// Export writes all listings to out, in the form that Import reads.
func (c Client) Export(ctx context.Context, out io.Writer) error {
	resp, err := c.do(ctx, http.MethodGet, "/listings/export", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(out, resp.Body); err != nil {
		return Unreachable(c.URL, err)
	}
	return nil
}

// Publish makes the listings public; all means every private one. dry only counts them. In the
// report, Line is the position of an id.
func (c Client) Publish(ctx context.Context, ids []string, all, dry bool) (api.ImportReport, []byte, error) {
	want := map[string]any{"ids": ids}
	if all {
		want = map[string]any{"all": true}
	}
	path := "/listings/publish"
	if dry {
		path += "?dryRun=true"
	}
	return call[api.ImportReport](ctx, c, http.MethodPost, path, encoded(want))
}

// Withdraw withdraws listings for a reason, which may be empty. Its report is like that of Publish.
func (c Client) Withdraw(ctx context.Context, ids []string, reason string) (api.ImportReport, []byte, error) {
	return call[api.ImportReport](ctx, c, http.MethodPost, "/listings/withdraw",
		encoded(map[string]any{"ids": ids, "reason": reason}))
}

// IssueKey issues a key.
func (c Client) IssueKey(ctx context.Context, want KeyRequest) (api.IssuedKey, []byte, error) {
	return call[api.IssuedKey](ctx, c, http.MethodPost, "/keys", encoded(want))
}

// KeyList lists a page of the keys of an account, or of all of them.
func (c Client) KeyList(ctx context.Context, account string, page Page) (api.KeyList, []byte, error) {
	return call[api.KeyList](ctx, c, http.MethodGet, "/keys"+page.query("account", account), nil)
}

// RevokeKey revokes a key permanently. With leaked, the mail to the account's owner says that the
// key was found in public.
func (c Client) RevokeKey(ctx context.Context, id string, leaked bool) ([]byte, error) {
	var body io.Reader
	if leaked {
		body = encoded(map[string]any{"leaked": true})
	}
	_, raw, err := call[any](ctx, c, http.MethodPost, "/keys/"+url.PathEscape(id)+"/revoke", body)
	return raw, err
}

// KeyRequests lists a page of the undecided key requests or, with all, of every key request.
func (c Client) KeyRequests(ctx context.Context, all bool, p Page) (api.KeyRequestList, []byte, error) {
	every := ""
	if all {
		every = "true"
	}
	return call[api.KeyRequestList](ctx, c, http.MethodGet, "/keys/requests"+p.query("all", every), nil)
}

// ApproveKey lets a person collect the key that they requested. It returns the request with its
// decision, which may be an earlier one.
func (c Client) ApproveKey(ctx context.Context, id string) (api.KeyRequest, []byte, error) {
	return call[api.KeyRequest](ctx, c, http.MethodPost, "/keys/requests/"+url.PathEscape(id)+"/approve", nil)
}

// DeclineKey declines a person's request for a key; otherwise like ApproveKey.
func (c Client) DeclineKey(ctx context.Context, id, reason string) (api.KeyRequest, []byte, error) {
	return call[api.KeyRequest](ctx, c, http.MethodPost, "/keys/requests/"+url.PathEscape(id)+"/decline",
		encoded(map[string]any{"reason": reason}))
}

// AccountList lists a page of the accounts whose email address contains email, or of all accounts
// if it is empty.
func (c Client) AccountList(ctx context.Context, email string, page Page) (api.AccountList, []byte, error) {
	return call[api.AccountList](ctx, c, http.MethodGet, "/accounts"+page.query("email", email), nil)
}

// Account returns everything about an account.
func (c Client) Account(ctx context.Context, id string) (api.AccountDetail, []byte, error) {
	return call[api.AccountDetail](ctx, c, http.MethodGet, "/accounts/"+url.PathEscape(id), nil)
}

// Queue returns a page of the review queue. filters are name and value, one after the other; empty
// values are left out.
func (c Client) Queue(ctx context.Context, filters ...string) (api.ReviewQueue, []byte, error) {
	return call[api.ReviewQueue](ctx, c, http.MethodGet, "/reviews/queue"+query(filters...), nil)
}

// Review submits a review of a listing. The report says whether it was recorded, rejected, or
// preceded by newer events.
func (c Client) Review(ctx context.Context, id string, s api.ReviewSubmission) (api.ReviewReport, []byte, error) {
	return call[api.ReviewReport](ctx, c, http.MethodPost, sheetPath(id), encoded(s))
}

// Lease takes or renews the lease of a listing. It returns the lease of another holder, unless
// takeOver is set.
func (c Client) Lease(ctx context.Context, id string, takeOver bool) (api.Lease, []byte, error) {
	return call[api.Lease](ctx, c, http.MethodPut, sheetPath(id)+"/lease", encoded(api.LeaseRequest{TakeOver: takeOver}))
}

// SaveDraft stores the caller's draft for a listing.
func (c Client) SaveDraft(ctx context.Context, id string, content json.RawMessage) (api.Draft, []byte, error) {
	return call[api.Draft](ctx, c, http.MethodPut, sheetPath(id)+"/draft", encoded(content))
}

// Edit replaces the version of a listing by a line of a listings file. dry only reports what would
// change. If the listing has another version, the report has that one.
func (c Client) Edit(ctx context.Context, id, version string, line json.RawMessage, dry bool) (api.EditReport, []byte,
	error) {
	path := "/records/" + url.PathEscape(id)
	if dry {
		path += "?dryRun=true"
	}
	return call[api.EditReport](ctx, c, http.MethodPut, path, bytes.NewReader(line), "If-Match", `"`+version+`"`)
}

// Events lists recorded events, the last recorded first. filters are as in Changes.
func (c Client) Events(ctx context.Context, filters ...string) (api.EventActList, []byte, error) {
	return call[api.EventActList](ctx, c, http.MethodGet, "/events"+query(filters...), nil)
}

// Candidates returns a page of the private listings. filters are name and value, one after the
// other; empty values are left out.
func (c Client) Candidates(ctx context.Context, filters ...string) (api.CandidateList, []byte, error) {
	return call[api.CandidateList](ctx, c, http.MethodGet, "/reviews/candidates"+query(filters...), nil)
}

func sheetPath(id string) string { return "/reviews/records/" + url.PathEscape(id) }

// Audit reads the audit log, newest first. filters are name and value, one after the other; empty
// values are left out.
func (c Client) Audit(ctx context.Context, filters ...string) (api.AuditList, []byte, error) {
	return call[api.AuditList](ctx, c, http.MethodGet, "/audit"+query(filters...), nil)
}

// Page selects at most Limit entries of a list, after the entry with id After. A Limit of 0 means
// the service's default.
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

// query encodes alternating names and values as a query string. It leaves out empty values.
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
	_, raw, err := call[any](ctx, c, http.MethodPost, "/accounts/"+url.PathEscape(account)+"/"+verb,
		encoded(map[string]any{"reason": reason}))
	return raw, err
}

// Grant gives an account a tier.
func (c Client) Grant(ctx context.Context, account string, tier api.Tier) ([]byte, error) {
	_, raw, err := call[any](ctx, c, http.MethodPost, "/accounts/"+url.PathEscape(account)+"/grant",
		encoded(map[string]any{"tier": tier}))
	return raw, err
}

// Get requests a path of the operator API. filters are name and value, one after the other; empty
// values are left out.
func Get[T any](ctx context.Context, c Client, path string, filters ...string) (T, []byte, error) {
	return call[T](ctx, c, http.MethodGet, path+query(filters...), nil)
}

// Send sends a body to a path of the operator API: a file, a value that is encoded as JSON, or
// nothing if nil.
func Send[T any](ctx context.Context, c Client, method, path string, body any) (T, []byte, error) {
	file, is := body.(io.Reader)
	if !is && body != nil {
		file = encoded(body)
	}
	return call[T](ctx, c, method, path, file)
}

// Path returns the path of segments, such as an id.
func Path(segments ...string) string {
	path := ""
	for _, s := range segments {
		path += "/" + url.PathEscape(s)
	}
	return path
}

func encoded(v any) io.Reader {
	body, _ := json.Marshal(v) // cannot fail: maps and structs of strings, booleans and valid JSON
	return bytes.NewReader(body)
}

// call sends a request and returns the response both decoded and unmodified. headers are name and
// value, one after the other.
func call[T any](ctx context.Context, c Client, method, path string, body io.Reader, headers ...string) (out T,
	raw []byte, err error) {
	resp, err := c.do(ctx, method, path, body, headers...)
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

func (c Client) do(ctx context.Context, method, path string, body io.Reader, headers ...string) (*http.Response,
	error) {
	if c.Actor == "" && method != http.MethodGet {
		return nil, ErrNoActor
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.URL, "/")+"/operator/v1"+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.Token)
	req.Header.Set(api.ActorHeader, c.Actor)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for pair := range slices.Chunk(headers, 2) {
		req.Header.Set(pair[0], pair[1])
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
