// Package api serves the requests about plans: entitlements and marks from billing, and the tiers for the documentation.
package api

import (
	"context"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/httpapi"
	"opportunity.internal/services/authquota/internal/plan/tier"
)

// Entitlements stores what accounts have paid for, as reported by billing.
type Entitlements interface {
	// Entitle stores an entitlement unless the stored version is the same or newer. holder is the account whose tier it counts
	// for.
	Entitle(ctx context.Context, id string, e api.Entitlement) (holder string, err error)
}

// Billing stores what this service has seen of billing's database.
type Billing interface {
	// SeenChange returns the newest change that SeeChange has stored.
	SeenChange(ctx context.Context) (api.FeedMark, error)
	SeeChange(ctx context.Context, change api.FeedMark) error
}

// API serves the requests.
type API struct {
	Entitlements Entitlements
	Billing      Billing
	Epochs       httpapi.Epochs
	Tiers        tier.Table
}

// Routes returns the routes.
func (a API) Routes() []httpapi.Route {
	return []httpapi.Route{
		httpapi.Put("/internal/v1/entitlements/:account", a.entitle),
		httpapi.Get(api.SeenPath, a.seen),
		httpapi.Post(api.SeenPath, a.see),
		httpapi.Get("/internal/v1/tiers", a.tiers),
	}
}

// tiers returns the tier table in effect, for the documentation served by the gateway.
func (a API) tiers(g *gin.Context) (web.Reply, error) {
	_, err := params.Read(g.Request.URL.RawQuery)
	return web.Reply{JSON: a.Tiers.List()}, err
}
