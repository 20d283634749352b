package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/keyusage"
)

// maxBatchBytes is far above the size of the largest usage batch, in bytes.
const maxBatchBytes = 4 << 20

// addBatch adds a usage batch of a gateway to the counts and to the request logs. It accepts a
// batch that was added before and changes nothing.
func (a API) addBatch(g *gin.Context) (web.Reply, error) {
	var sent api.UsageBatch
	if err := DecodeUpTo(g, &sent, maxBatchBytes); err != nil {
		return web.Reply{}, err
	}
	batch, err := keyusage.Check(sent, a.Now())
	if err != nil {
		return web.Reply{}, err
	}
	requests, err := keyusage.CheckRequests(sent.Requests, a.Now())
	if err != nil {
		return web.Reply{}, err
	}
	unknown, err := a.Usage.Count(g.Request.Context(), batch)
	if unknown > 0 {
		a.Errors.Log.WarnContext(g.Request.Context(), "usage batch: unknown keys skipped", "keys", unknown)
	}
	if err == nil {
		err = a.RequestLog.Add(g.Request.Context(), requests)
	}
	return web.Reply{Status: http.StatusNoContent}, err
}
