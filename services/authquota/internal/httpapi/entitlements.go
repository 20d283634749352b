package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/plan"
)

// entitle stores an entitlement from billing. 204 means that this version, or a newer one, is in
// effect on every gateway. After any other status billing retries, even if the 503 came after the
// entitlement was stored.
func (a API) entitle(g *gin.Context) (web.Reply, error) {
	var entitlement api.Entitlement
	if err := Decode(g, &entitlement); err != nil {
		return web.Reply{}, err
	}
	entitlement, err := plan.Entitled(entitlement)
	if err != nil {
		return web.Reply{}, err
	}
	if err := account.CheckID(g.Param("account")); err != nil {
		return web.Reply{}, err
	}
	return web.Reply{Status: http.StatusNoContent}, a.Plans.Entitle(g.Request.Context(), g.Param("account"), entitlement)
}
