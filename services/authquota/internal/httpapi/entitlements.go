package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/account"
)

// entitle takes what billing says that an account has paid for. 204 means that it, or something newer, is in force on every gateway.
// Billing repeats it after anything else, also after a 503 for which it was kept already.
func (a API) entitle(g *gin.Context) (web.Reply, error) {
	var told api.Entitlement
	if err := decode(g, &told); err != nil {
		return web.Reply{}, err
	}
	told, err := account.Entitled(told)
	if err != nil {
		return web.Reply{}, err
	}
	if err := account.Known(g.Param("account")); err != nil {
		return web.Reply{}, err
	}
	holder, err := a.Paid.Entitle(g.Request.Context(), g.Param("account"), told)
	if err != nil {
		return web.Reply{}, err
	}
	return web.Reply{Status: http.StatusNoContent}, a.inForce(g.Request.Context(), holder)
}
