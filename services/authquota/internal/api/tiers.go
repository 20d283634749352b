package api

import (
	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/web"
)

// tiers returns the tier table in effect, for the documentation served by the gateway.
func (a API) tiers(g *gin.Context) (web.Reply, error) {
	_, err := params.Read(g.Request.URL.RawQuery)
	return web.Reply{JSON: a.Tiers.List()}, err
}
