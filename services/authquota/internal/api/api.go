// Package api serves the internal HTTP API of authquota: principals and usage for the gateway, entitlements for billing,
// and keys and accounts for operators (through the gateway).
package api

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountview"
	"opportunity.internal/services/authquota/internal/keys"
)

// Route is a method and path with its handler.
type Route struct {
	Method string
	Path   string
	Handle func(*gin.Context) (web.Reply, error)
}

// Get returns a Route for GET.
func Get(path string, handle func(*gin.Context) (web.Reply, error)) Route {
	return Route{http.MethodGet, path, handle}
}

// Post returns a Route for POST.
func Post(path string, handle func(*gin.Context) (web.Reply, error)) Route {
	return Route{http.MethodPost, path, handle}
}

// Put returns a Route for PUT.
func Put(path string, handle func(*gin.Context) (web.Reply, error)) Route {
	return Route{http.MethodPut, path, handle}
}

// API serves the requests.
type API struct {
	Accounts      Accounts
	Audit         Audit
	Keys          Keys
	Requests      Requests
	Principals    Principals
	Entitlements  Entitlements
	Announcements Announcements
	RequestLog    RequestLog
	Counters      Counters
	Batches       Batches
	Charts        Charts
	Epochs        Epochs

	Tiers     account.TierTable
	Peppers   [][]byte // newest first
	OlderKeys apikey.OlderForm
	Log       *slog.Logger
	Now       func() time.Time
}

// Routes returns the routes.
func (a API) Routes() []Route {
	return []Route{
		Post("/internal/v1/principals", a.resolve),
		Get("/internal/v1/key-digests", a.keyDigests),
		Put("/internal/v1/entitlements/:account", a.entitle),
		Get("/internal/v1/tiers", a.tiers),
		Post("/internal/v1/usage/:day/restore", a.restore),
		Post("/internal/v1/tallies", a.addBatch),
		Post("/internal/v1/request-log", a.logRequests),

		Get("/operator/v1/accounts", a.listAccounts),
		Get("/operator/v1/accounts/:id", a.showAccount),
		Post("/operator/v1/accounts/:id/suspend", a.suspend),
		Post("/operator/v1/accounts/:id/resume", a.resume),
		Post("/operator/v1/accounts/:id/grant", a.grant),
		Get("/operator/v1/audit", a.listAudit),
		Post("/operator/v1/keys", a.issue),
		Get("/operator/v1/keys", a.listKeys),
		Post("/operator/v1/keys/:id/revoke", a.revoke),
		Post("/operator/v1/keys/import", a.importKeys),
		Get("/operator/v1/keys/requests", a.listRequests),
		Post("/operator/v1/keys/requests/:id/approve", a.approve),
		Post("/operator/v1/keys/requests/:id/decline", a.decline),
		Get("/operator/v1/usage", a.report),
		Post("/operator/v1/announcements", a.announce),
	}
}

// Handler serves the routes and /readyz. peer.Rules has the services that may call them.
func Handler(errors problem.Writer, ready http.Handler, routes []Route) http.Handler {
	e := web.New(errors)
	e.GET("/readyz", gin.WrapH(ready))
	for _, r := range routes {
		e.Handle(r.Method, r.Path, web.Handler(errors, r.Handle))
	}
	return e
}

// Accounts stores accounts.
type Accounts interface {
	Accounts(ctx context.Context, search accountview.Search) (listed []accountview.Listed, more bool, err error)
	Account(ctx context.Context, id string) (accountview.Details, error)
	// ChangeAccount applies a change. Repeating it changes nothing.
	ChangeAccount(ctx context.Context, actor, id string, change account.Change) (account.Account, error)
}

// Audit reads the audit log.
type Audit interface {
	Audit(ctx context.Context, search accountview.AuditSearch) (entries []accountview.AuditEntry, more bool, err error)
}

// Keys stores keys. Errors are problem.Errors, or internal errors for the log.
type Keys interface {
	// Issue creates a key for a valid order.
	Issue(ctx context.Context, actor string, order keys.Order, life time.Duration, stored keys.Record) (keys.Key, error)
	// Keys returns a page of the keys of one account, or of all if id is empty. more reports whether another page follows.
	Keys(ctx context.Context, of keys.Filter, page account.Page) (keys []keys.Key, more bool, err error)
	// Revoke revokes a key. Revoking it again changes nothing.
	Revoke(ctx context.Context, actor, id string, leaked bool) (keys.Key, error)
	// ImportKeys imports keys of another form: all, or none if the report has rejected lines.
	ImportKeys(ctx context.Context, actor string, keys []keys.Older, peppers [][]byte) (api.ImportReport, error)
}

// Requests stores key requests.
type Requests interface {
	// Requests returns a page of the undecided requests, or of all requests.
	Requests(ctx context.Context, all bool, page account.Page) (requests []keys.Request, more bool, err error)
	// Decide decides a request. Repeating a decision changes nothing.
	Decide(ctx context.Context, actor, id string, decision keys.Decide) (keys.Request, error)
}

// Principals finds keys by their digests; not_found if there is none.
type Principals interface {
	Owner(ctx context.Context, digests []string) (accountID string, err error)
	Resolve(ctx context.Context, digests []string) (key keys.Key, suspended bool, err error)
	// KeyDigests returns the shortened digests of all keys, page by page.
	KeyDigests(ctx context.Context, after api.KeyPosition, limit int) (api.KeyDigests, error)
}

// Epochs reads and increments the epochs in Redis.
type Epochs interface {
	// Deliver makes committed changes of the account take effect.
	Deliver(ctx context.Context, account string) (left int, err error)
	Read(ctx context.Context, account string) (int64, error)
	Reachable(ctx context.Context) error
}

// Apply delivers the pending epoch increments of an account. After success the change is in effect. After a 503 the change is
// saved and need not be repeated.
func Apply(ctx context.Context, epochs Epochs, account string) error {
	if _, err := epochs.Deliver(ctx, account); err != nil {
		return problem.New(problem.ServiceUnavailable,
			"The change is saved and takes effect automatically as soon as Redis is available again.").
			Retry(time.Second).Because(err)
	}
	return nil
}
