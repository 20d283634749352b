// Package api receives the request log from the gateways.
package api

import (
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/httpapi"
	"opportunity.internal/services/authquota/internal/requestlog"
)

// Log stores requests.
type Log interface {
	// Add adds requests, except those that were added before.
	Add(ctx context.Context, requests []api.LoggedRequest) error
}

// API serves the requests.
type API struct {
	Log Log
	Now func() time.Time
}

// Routes returns the routes.
func (a API) Routes() []httpapi.Route {
	return []httpapi.Route{httpapi.Post("/internal/v1/request-log", a.add)}
}

// maxBatchBytes is far above the size of the largest batch, in bytes.
const maxBatchBytes = 2 << 20

func (a API) add(g *gin.Context) (web.Reply, error) {
	var sent api.RequestLogBatch
	if err := httpapi.DecodeUpTo(g, &sent, maxBatchBytes); err != nil {
		return web.Reply{}, err
	}
	requests, err := requestlog.Check(sent, a.Now())
	if err == nil {
		err = a.Log.Add(g.Request.Context(), requests)
	}
	return web.Reply{Status: http.StatusNoContent}, err
}
