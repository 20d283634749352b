// Package api serves the requests about keys: of operators, and of the gateways that resolve them.
package api

import (
	"context"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/httpapi"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/plan/tier"
)

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
	httpapi.Epochs
	Read(ctx context.Context, account string) (int64, error)
	Reachable(ctx context.Context) error
}

// API serves the requests.
type API struct {
	Keys       Keys
	Requests   Requests
	Principals Principals
	Verify     func(context.Context) error // returns an error (503) if the database was set back
	Epochs     Epochs
	Tiers      tier.Table
	Peppers    [][]byte // newest first
	OlderKeys  apikey.OlderForm
	Now        func() time.Time
}

// Routes returns the routes.
func (a API) Routes() []httpapi.Route {
	return []httpapi.Route{
		httpapi.Post("/internal/v1/principals", a.resolve),
		httpapi.Get("/internal/v1/key-digests", a.keyDigests),
		httpapi.Post("/operator/v1/keys", a.issue),
		httpapi.Get("/operator/v1/keys", a.listKeys),
		httpapi.Post("/operator/v1/keys/:id/revoke", a.revoke),
		httpapi.Post("/operator/v1/keys/import", a.importKeys),
		httpapi.Get("/operator/v1/keys/requests", a.listRequests),
		httpapi.Post("/operator/v1/keys/requests/:id/approve", a.approve),
		httpapi.Post("/operator/v1/keys/requests/:id/decline", a.decline),
	}
}
