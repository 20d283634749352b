// Package httpapi serves the internal HTTP API of authquota: principals and usage for the gateway, entitlements for billing,
// and keys and accounts for operators (through the gateway). All requests need the internal token.
package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/tier"
	"opportunity.internal/services/authquota/internal/usage"
)

// Keys stores keys. Errors are problem.Errors, or internal errors for the log.
type Keys interface {
	// Issue creates a key for a valid order.
	Issue(ctx context.Context, actor string, order account.Order, life time.Duration, stored account.KeyRecord) (account.Key, error)
	// Keys returns a page of the keys of one account, or of all if id is empty. more reports whether another page follows.
	Keys(ctx context.Context, id string, page account.Page) (keys []account.Key, more bool, err error)
	// Revoke revokes a key. Revoking it again changes nothing.
	Revoke(ctx context.Context, actor, id string, leaked bool) (account.Key, error)
	// ImportKeys imports keys of another form: all, or none if the report has rejected lines.
	ImportKeys(ctx context.Context, actor string, keys []account.OlderKey, peppers [][]byte) (api.ImportReport, error)
}

// Requests stores key requests.
type Requests interface {
	// Requests returns a page of the undecided requests, or of all.
	Requests(ctx context.Context, all bool, page account.Page) (requests []account.Request, more bool, err error)
	// Decide decides a request. Repeating a decision changes nothing.
	Decide(ctx context.Context, actor, id string, decision account.Decide) (account.Request, error)
}

// Principals finds keys by their digests; not_found if there is none.
type Principals interface {
	Owner(ctx context.Context, digests []string) (accountID string, err error)
	Resolve(ctx context.Context, digests []string) (key account.Key, suspended bool, err error)
	// KeyDigests returns the shortened digests of all keys, page by page.
	KeyDigests(ctx context.Context, after api.KeyPosition, limit int) (api.KeyDigests, error)
}

// Accounts stores accounts.
type Accounts interface {
	Accounts(ctx context.Context, search account.Search) (found []account.Listed, more bool, err error)
	Account(ctx context.Context, id string) (account.Details, error)
	// ChangeAccount applies a change. Repeating it changes nothing.
	ChangeAccount(ctx context.Context, actor, id string, change account.Change) (account.Account, error)
}

// Entitlements stores what accounts have paid for, as reported by billing.
type Entitlements interface {
	// Entitle stores an entitlement unless the stored version is the same or newer. holder is the account whose tier it counts
	// for.
	Entitle(ctx context.Context, id string, e api.Entitlement) (holder string, err error)
}

// Audit reads the audit log.
type Audit interface {
	Audit(ctx context.Context, search account.AuditSearch) (entries []account.AuditEntry, more bool, err error)
}

// Usage reads the usage ledger.
type Usage interface {
	Day(ctx context.Context, day string) (api.DayUsage, error)
}

// UsageBatches stores the outcomes of requests by key.
type UsageBatches interface {
	// Count adds a usage batch once, even if it is sent again, and returns the number of unknown keys.
	Count(ctx context.Context, b usage.Batch) (unknown int, err error)
}

// Epochs reads and increments the epochs in Redis.
type Epochs interface {
	Read(ctx context.Context, account string) (int64, error)
	// Deliver makes committed changes of the account take effect.
	Deliver(ctx context.Context, account string) (left int, err error)
	Reachable(ctx context.Context) error
}

// API serves the requests.
type API struct {
	Errors       problem.Writer
	Tokens       peer.Tokens
	Keys         Keys
	Requests     Requests
	Principals   Principals
	Accounts     Accounts
	Paid         Entitlements
	Audit        Audit
	Usage        Usage
	UsageBatches UsageBatches
	Epochs       Epochs
	Tiers        tier.Table
	Peppers      [][]byte // newest first
	OlderKeys    apikey.OlderForm
	Now          func() time.Time
	Ready        http.Handler
}

// Handler returns the handler for all paths.
func (a API) Handler() http.Handler {
	e := web.New(a.Errors)
	e.GET("/readyz", gin.WrapH(a.Ready))
	route := func(group *gin.RouterGroup, method, path string, handle func(*gin.Context) (web.Reply, error)) {
		group.Handle(method, path, web.Handler(a.Errors, handle))
	}
	inside := e.Group("/", web.Internal(a.Errors, a.Tokens))
	route(inside, http.MethodPost, "/internal/v1/principals", a.resolve)
	route(inside, http.MethodGet, "/internal/v1/key-digests", a.keyDigests)
	route(inside, http.MethodGet, "/internal/v1/usage/:day", a.day)
	route(inside, http.MethodGet, "/internal/v1/tiers", a.tiers)
	route(inside, http.MethodPost, "/internal/v1/tallies", a.addBatch)
	route(inside, http.MethodPut, "/internal/v1/entitlements/:account", a.entitle)
	route(inside, http.MethodPost, "/operator/v1/keys", a.issue)
	route(inside, http.MethodGet, "/operator/v1/keys", a.listKeys)
	route(inside, http.MethodPost, "/operator/v1/keys/import", a.importKeys)
	route(inside, http.MethodGet, "/operator/v1/keys/requests", a.listRequests)
	route(inside, http.MethodPost, "/operator/v1/keys/requests/:id/approve", a.approve)
	route(inside, http.MethodPost, "/operator/v1/keys/requests/:id/decline", a.decline)
	route(inside, http.MethodPost, "/operator/v1/keys/:id/revoke", a.revoke)
	route(inside, http.MethodGet, "/operator/v1/accounts", a.listAccounts)
	route(inside, http.MethodGet, "/operator/v1/accounts/:id", a.showAccount)
	route(inside, http.MethodGet, "/operator/v1/audit", a.listAudit)
	route(inside, http.MethodPost, "/operator/v1/accounts/:id/suspend", a.suspend)
	route(inside, http.MethodPost, "/operator/v1/accounts/:id/resume", a.resume)
	route(inside, http.MethodPost, "/operator/v1/accounts/:id/grant", a.grant)
	return e
}

// apply delivers the pending epoch increments of an account. After success the change is in effect. After a 503 the change is
// saved and need not be repeated.
func (a API) apply(ctx context.Context, id string) error {
	if _, err := a.Epochs.Deliver(ctx, id); err != nil {
		return problem.New(problem.ServiceUnavailable,
			"The change is saved and takes effect automatically as soon as Redis is available again.").
			Retry(time.Second).Because(err)
	}
	return nil
}

// maxBody is far above the size of these requests, except usage batches.
const maxBody = 64 << 10

// unknownField extracts the field name from the error of encoding/json, which has no type. Longer names are not repeated to the
// caller, because they may be a misplaced key.
var unknownField = regexp.MustCompile(`^json: unknown field "([A-Za-z]{1,32})"$`)

// decode reads the request body into out and rejects unknown fields. An absent body leaves out unchanged.
func decode(g *gin.Context, out any) error { return decodeUpTo(g, out, maxBody) }

func decodeUpTo(g *gin.Context, out any, most int64) error {
	if _, err := params.Read(g.Request.URL.RawQuery); err != nil {
		return err
	}
	in := json.NewDecoder(http.MaxBytesReader(g.Writer, g.Request.Body, most))
	in.DisallowUnknownFields()
	err := in.Decode(out)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		if _, err = in.Token(); errors.Is(err, io.EOF) {
			return nil
		}
		return problem.New(problem.InvalidParameter, "The body must be one JSON object and nothing after it.")
	}
	if wrong := new(time.ParseError); errors.As(err, &wrong) || strings.HasPrefix(err.Error(), "Time.UnmarshalJSON") {
		return problem.New(problem.InvalidParameter, "Times must look like 2027-01-31T00:00:00Z.")
	}
	if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) && wrong.Field != "" {
		return account.Invalid(wrong.Field, "must be a "+wrong.Type.String()+", not a "+wrong.Value)
	}
	if name := unknownField.FindStringSubmatch(err.Error()); name != nil {
		return account.Invalid(name[1], "is unknown")
	}
	return problem.New(problem.InvalidParameter, "The body must be one JSON object of at most %d bytes.", most).Because(err)
}
