package httpapi

import (
	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/keyusage"
)

// settings returns the settings that the gateway shares or follows.
func (a API) settings(g *gin.Context) (web.Reply, error) {
	_, err := params.Read(g.Request.URL.RawQuery)
	return web.Reply{JSON: a.Shared}, err
}

// served returns how many calls failed on each day, for the status page of the gateway.
func (a API) served(g *gin.Context) (web.Reply, error) {
	if _, err := params.Read(g.Request.URL.RawQuery); err != nil {
		return web.Reply{}, err
	}
	days, err := a.Usage.Served(g.Request.Context(), keyusage.Last(a.Now(), api.ServedDays))
	return web.Reply{JSON: days}, err
}
