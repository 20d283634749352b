package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/usage"
)

// maxTallies is the size of the largest batch, with much to spare.
const maxTallies = 2 << 20

// tally adds up what a gateway has counted. A batch that was added up already is accepted and changes nothing.
func (a API) tally(g *gin.Context) (web.Reply, error) {
	var sent api.UsageBatch
	if err := decodeUpTo(g, &sent, maxTallies); err != nil {
		return web.Reply{}, err
	}
	batch, err := usage.Check(sent, a.Now())
	if err != nil {
		return web.Reply{}, err
	}
	unknown, err := a.Tallies.Count(g.Request.Context(), batch)
	if unknown > 0 {
		a.Errors.Log.WarnContext(g.Request.Context(), "tallies of keys that nobody has", "keys", unknown)
	}
	return web.Reply{Status: http.StatusNoContent}, err
}
