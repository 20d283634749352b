package api

import (
	"context"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/web"
)

// Entitlements stores what accounts have paid for, as reported by billing.
type Entitlements interface {
	// Entitle stores an entitlement unless the stored version is the same or newer. holder is the account whose tier it counts
	// for.
	Entitle(ctx context.Context, id string, e api.Entitlement) (holder string, err error)
}

// tiers returns the tier table in effect, for the documentation served by the gateway.
func (a API) tiers(g *gin.Context) (web.Reply, error) {
	_, err := params.Read(g.Request.URL.RawQuery)
	return web.Reply{JSON: a.Tiers.List()}, err
}
