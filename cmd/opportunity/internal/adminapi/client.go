// Package adminapi is a client of the operator API, which the admin listener of a gateway serves.
//
// Each call of the API is a Route in the table below, with the type of its response: RevokeKey.Call
// makes the call with a Client. The client has the address of the listener, the operator's token
// and the operator's name for the audit log; NewClient finds them on this machine.
//
// Errors are for people: they name what is wrong, the address or file, and what to do next. A
// RequestError is a rejection by a service; Code classifies every error for programs.
package adminapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/pkg/api"
)

// Route is a call of the operator API. Its response is a T.
type Route[T any] struct {
	method, path string // {id} in the path stands for the id of the input
}

// Routes of listings and their reviews. The types of the operator API describe their bodies.
var (
	ListListings     = Route[api.ListingList]{http.MethodGet, "/listings"}
	ImportListings   = Route[api.ImportReport]{http.MethodPost, "/listings/import"}
	PublishListings  = Route[api.ImportReport]{http.MethodPost, "/listings/publish"} // Line is the position of an id
	WithdrawListings = Route[api.ImportReport]{http.MethodPost, "/listings/withdraw"}
	GetListing       = Route[api.ListingDetail]{http.MethodGet, "/records/{id}"}
	EditListing      = Route[api.EditReport]{http.MethodPut, "/records/{id}"}
	GetPages         = Route[api.PageTexts]{http.MethodGet, "/records/{id}/pages"}
	ReadPages        = Route[api.PagesDue]{http.MethodPost, "/records/{id}/read"}
	GetCatalog       = Route[api.CatalogStatus]{http.MethodGet, "/catalog"}
	ListChanges      = Route[api.ListingActList]{http.MethodGet, "/changes"}

	AppendEvents = Route[api.AppendReport]{http.MethodPost, "/events/append"}
	ListEvents   = Route[api.EventActList]{http.MethodGet, "/events"}
	GetHistory   = Route[api.HistorySnapshot]{http.MethodGet, "/history/{id}"}

	ListDue           = Route[api.DueList]{http.MethodGet, "/reviews/due"}
	GetQueue          = Route[api.ReviewQueue]{http.MethodGet, "/reviews/queue"}
	ListCandidates    = Route[api.CandidateList]{http.MethodGet, "/reviews/candidates"}
	GetFreshness      = Route[api.Freshness]{http.MethodGet, "/reviews/freshness"}
	ListOpinions      = Route[api.OpinionList]{http.MethodGet, "/reviews/second-opinions"}
	ListWithdrawals   = Route[api.WithdrawalList]{http.MethodGet, "/reviews/withdrawals"}
	FindQuotes        = Route[api.QuoteFindings]{http.MethodPost, "/reviews/quotes"}
	GetSheet          = Route[api.ReviewSheet]{http.MethodGet, "/reviews/records/{id}"}
	SubmitReview      = Route[api.ReviewReport]{http.MethodPost, "/reviews/records/{id}"}
	UndoReview        = Route[api.ReviewReport]{http.MethodPost, "/reviews/records/{id}/undo"}
	TakeLease         = Route[api.Lease]{http.MethodPut, "/reviews/records/{id}/lease"}
	SaveDraft         = Route[api.Draft]{http.MethodPut, "/reviews/records/{id}/draft"}
	DeleteDraft       = Route[any]{http.MethodDelete, "/reviews/records/{id}/draft"}
	SkipRecord        = Route[api.Skip]{http.MethodPut, "/reviews/records/{id}/skip"}
	OpenSource        = Route[any]{http.MethodPut, "/reviews/records/{id}/opened"}
	ProposeWithdrawal = Route[any]{http.MethodPost, "/reviews/records/{id}/propose-withdrawal"}
	DeclineWithdrawal = Route[any]{http.MethodPost, "/reviews/records/{id}/decline-withdrawal"}
)

// Routes of keys and accounts.
var (
	GetMe             = Route[api.Operator]{http.MethodGet, "/me"}
	ListKeys          = Route[api.KeyList]{http.MethodGet, "/keys"}
	IssueKey          = Route[api.IssuedKey]{http.MethodPost, "/keys"} // the body is an api.KeyOrder
	ImportKeys        = Route[api.ImportReport]{http.MethodPost, "/keys/import"}
	RevokeKey         = Route[any]{http.MethodPost, "/keys/{id}/revoke"}
	ListKeyRequests   = Route[api.KeyRequestList]{http.MethodGet, "/keys/requests"}
	ApproveKeyRequest = Route[api.KeyRequest]{http.MethodPost, "/keys/requests/{id}/approve"}
	DeclineKeyRequest = Route[api.KeyRequest]{http.MethodPost, "/keys/requests/{id}/decline"}

	ListAccounts       = Route[api.AccountList]{http.MethodGet, "/accounts"}
	GetAccount         = Route[api.AccountDetail]{http.MethodGet, "/accounts/{id}"}
	SuspendAccount     = Route[any]{http.MethodPost, "/accounts/{id}/suspend"}
	ResumeAccount      = Route[any]{http.MethodPost, "/accounts/{id}/resume"}
	GrantTier          = Route[any]{http.MethodPost, "/accounts/{id}/grant"}
	ResetAuthenticator = Route[api.AuthenticatorReset]{http.MethodPost, "/accounts/{id}/reset-authenticator"}
	Announce           = Route[api.Announcement]{http.MethodPost, "/announcements"}
	ListAudit          = Route[api.AuditList]{http.MethodGet, "/audit"}
	GetUsage           = Route[api.UsageReport]{http.MethodGet, "/usage"}
	ReconcileBilling   = Route[api.BillingReport]{http.MethodPost, "/billing/reconcile"}
)

// Client acts as an operator through the admin listener.
type Client struct {
	URL       string // of the admin listener
	Token     string
	TokenFile string // the file that Token was read from; empty if it came from the environment
	Actor     string // operator's name for the audit log; without it, every method except GET fails
	HTTP      *http.Client
}

// Defaults of flags and environment variables. `opportunity up` uses the same.
const (
	DefaultAdmin   = "127.0.0.1:8081"
	DefaultDataDir = ".opportunity"
	TokenFile      = "operator-token" // in the data directory
)

// Flags adds the flags for NewClient: those of the admin listener and of the data directory.
func Flags(f *pflag.FlagSet, adminURL, dataDir *string) {
	f.StringVar(adminURL, "admin-url", cmp.Or(os.Getenv("OPPORTUNITY_ADMIN_URL"), "http://"+DefaultAdmin),
		"the gateway's admin listener, also from OPPORTUNITY_ADMIN_URL")
	f.StringVar(dataDir, "data-dir", cmp.Or(os.Getenv("OPPORTUNITY_DATA_DIR"), DefaultDataDir),
		`data directory of "opportunity up", which holds the operator token; also from OPPORTUNITY_DATA_DIR.
OPPORTUNITY_OPERATOR_TOKEN takes precedence`)
}

// NewClient returns a Client with the operator token from the environment or the data directory of
// "opportunity up". The token is only sent, never printed. Without a token, the Code of the error
// is CodeNoToken.
func NewClient(adminURL, dataDir string) (Client, error) {
	if err := CheckURL("admin-url", adminURL); err != nil {
		return Client{}, err
	}
	token, file := os.Getenv("OPPORTUNITY_OPERATOR_TOKEN"), ""
	if token == "" {
		file = filepath.Join(dataDir, TokenFile)
		text, err := os.ReadFile(file)
		if err != nil {
			return Client{}, &Failure{CodeNoToken,
				fmt.Sprintf("no operator token: OPPORTUNITY_OPERATOR_TOKEN is not set, and %v. "+
					`Set it, or use --data-dir with the directory of "opportunity up".`, err)}
		}
		token = strings.TrimSpace(string(text))
	}
	return Client{URL: adminURL, Token: token, TokenFile: file, Actor: Actor(), HTTP: http.DefaultClient}, nil
}

// Actor returns the name of the person at this machine, or "" if the environment does not have it.
func Actor() string {
	return cmp.Or(strings.TrimSpace(os.Getenv("OPPORTUNITY_ACTOR")), os.Getenv("USER"), os.Getenv("LOGNAME"))
}

// CheckURL returns the usage error for the value of a flag that is not an HTTP URL.
func CheckURL(flag, value string) error {
	if api.ValidURL(value) {
		return nil
	}
	return flags.Usage("invalid --%s %q: use an http or https URL such as http://%s", flag, value, DefaultAdmin)
}

// Input has the variable parts of a request.
type Input struct {
	ID      string // of the path
	Query   url.Values
	Body    any    // a file, or a value that is encoded as JSON; nil for none
	Version string // of the listing that is edited
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
