package api

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/requestlog"
)

// maxLogBatch is far above the size of the largest batch, in bytes.
const maxLogBatch = 2 << 20

func (a API) logRequests(g *gin.Context) (web.Reply, error) {
	var sent api.RequestLogBatch
	if err := DecodeUpTo(g, &sent, maxLogBatch); err != nil {
		return web.Reply{}, err
	}
	requests, err := requestlog.Check(sent, a.Now())
	if err == nil {
		err = a.RequestLog.Add(g.Request.Context(), requests)
	}
	return web.Reply{Status: http.StatusNoContent}, err
}
