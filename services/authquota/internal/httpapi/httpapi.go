// Package httpapi is how authquota is asked: by the gateway for principals and usage, by billing, which tells what was paid for, and by
// operators (through the gateway) for keys and accounts. Everything is JSON behind the internal token.
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

// Keys are the keys as they are kept. Errors are problem.Errors, or failures that only the log may see.
type Keys interface {
	// Issue keeps a new key for an order that has been checked.
	Issue(ctx context.Context, actor string, order account.Order, life time.Duration, kept account.Kept) (account.Key, error)
	// Keys lists those of one account, or all where id is empty; more reports whether others come after the page.
	Keys(ctx context.Context, id string, page account.Page) (keys []account.Key, more bool, err error)
	// Revoke ends a key; one that has ended already stays as it is.
	Revoke(ctx context.Context, actor, id string, leaked bool) (account.Key, error)
	// ImportKeys takes keys of another form over: all, or none where the report names refused lines.
	ImportKeys(ctx context.Context, actor string, keys []account.OlderKey, peppers [][]byte) (api.ImportReport, error)
}

// Requests are the requests for keys as they are kept.
type Requests interface {
	// Requests lists a page of what waits for an operator, or of everything.
	Requests(ctx context.Context, all bool, page account.Page) (requests []account.Request, more bool, err error)
	// Decide decides on one; one that was decided so already stays as it is.
	Decide(ctx context.Context, actor, id string, decision account.Decide) (account.Request, error)
}

// Principals finds keys by their digests; not_found where there is none.
type Principals interface {
	Owner(ctx context.Context, digests []string) (accountID string, err error)
	Resolve(ctx context.Context, digests []string) (key account.Key, suspended bool, err error)
	// KeyDigests returns the shortened digests of all keys, page by page.
	KeyDigests(ctx context.Context, after api.KeyPosition, limit int) (api.KeyDigests, error)
}

// Accounts are the accounts as they are kept.
type Accounts interface {
	Accounts(ctx context.Context, search account.Search) (found []account.Listed, more bool, err error)
	Account(ctx context.Context, id string) (account.Seen, error)
	// ChangeAccount does an act; an account that is as asked already stays as it is.
	ChangeAccount(ctx context.Context, actor, id string, change account.Change) (account.Account, error)
}

// Entitlements are what accounts have paid for, as billing tells it.
type Entitlements interface {
	// Entitle keeps one unless something as new is kept; holder is the account whose tier it counts for.
	Entitle(ctx context.Context, id string, e api.Entitlement) (holder string, err error)
}

// Audit is the audit log.
type Audit interface {
	Audit(ctx context.Context, search account.AuditSearch) (entries []account.AuditEntry, more bool, err error)
}

// Usage is the ledger.
type Usage interface {
	Day(ctx context.Context, day string) (api.DayUsage, error)
}

// Tallies are how calls ended, by key.
type Tallies interface {
	// Count adds a batch up once, however often it is sent, and tells how many of its keys nobody has.
	Count(ctx context.Context, b usage.Batch) (unknown int, err error)
}

// Epochs are the epochs in the counter store.
type Epochs interface {
	Read(ctx context.Context, account string) (int64, error)
	// Deliver puts in force what was committed for the account.
	Deliver(ctx context.Context, account string) (owed int, err error)
	Reachable(ctx context.Context) error
}

// API answers requests.
type API struct {
	Errors     problem.Writer
	Tokens     peer.Tokens
	Keys       Keys
	Requests   Requests
	Principals Principals
	Accounts   Accounts
	Paid       Entitlements
	Audit      Audit
	Usage      Usage
	Tallies    Tallies
	Epochs     Epochs
	Tiers      tier.Table
	Peppers    [][]byte // newest first
	OlderKeys  apikey.OlderForm
	Now        func() time.Time
	Ready      http.Handler
}

// Handler routes requests.
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
	route(inside, http.MethodPost, "/internal/v1/tallies", a.tally)
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

// inForce delivers what a committed change of the account owes to the counter store. An operator who reads success can rely on
// it; one who reads 503 knows that nothing needs to be repeated.
func (a API) inForce(ctx context.Context, id string) error {
	if _, err := a.Epochs.Deliver(ctx, id); err != nil {
		return problem.New(problem.ServiceUnavailable,
			"The change is recorded, but the counter store is out of reach: it takes force by itself as soon as that is back.").
			Retry(time.Second).Because(err)
	}
	return nil
}

// maxBody is far above what any of these requests needs, but for tallies.
const maxBody = 64 << 10

// unknownField finds the name in the error of encoding/json, which has no type of its own. A longer name is not repeated to the
// caller: it may be a key in the wrong place.
var unknownField = regexp.MustCompile(`^json: unknown field "([A-Za-z]{1,32})"$`)

// decode reads a request's body into out, strictly. An absent body leaves out as it is.
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
		return problem.New(problem.InvalidParameter, "Instants must be such as 2027-01-31T00:00:00Z.")
	}
	if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) && wrong.Field != "" {
		return account.Invalid(wrong.Field, "must be a "+wrong.Type.String()+", not a "+wrong.Value)
	}
	if name := unknownField.FindStringSubmatch(err.Error()); name != nil {
		return account.Invalid(name[1], "is unknown")
	}
	return problem.New(problem.InvalidParameter, "The body must be one JSON object of at most %d bytes.", most).Because(err)
}
