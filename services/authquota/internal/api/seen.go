package api

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/account"
)

// seen returns the newest change of billing's database that billing has reported.
func (a API) seen(g *gin.Context) (web.Reply, error) {
	newest, err := a.Billing.SeenChange(g.Request.Context())
	return web.Reply{JSON: api.Seen{Mark: newest}}, err
}

// see stores the newest change of billing's database.
func (a API) see(g *gin.Context) (web.Reply, error) {
	var change api.FeedMark
	if err := Decode(g, &change); err != nil {
		return web.Reply{}, err
	}
	if change.Sequence < 1 || change.ID == "" {
		return web.Reply{}, account.Invalid("sequence", "must be that of a change, with its id")
	}
	return web.Reply{Status: http.StatusNoContent}, a.Billing.SeeChange(g.Request.Context(), change)
}
