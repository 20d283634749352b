package authquota

import (
	"log/slog"
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
)

func TestRoutesHaveRules(t *testing.T) {
	errors := problem.Writer{Log: slog.New(slog.DiscardHandler)}
	cfg, p := Config{PublicURL: servicetest.PublicURL}, &parts{}
	api, ok := newAPI(cfg, settings{}, p, errors, http.NotFoundHandler()).(*gin.Engine)
	require.True(t, ok)
	account := storetest.Must(newPages(cfg, settings{}, p, errors))(t)
	pages, ok := account.Handler().(*gin.Engine)
	require.True(t, ok)
	servicetest.RequireRules(t, peer.Authquota, append(api.Routes(), pages.Routes()...),
		func(r gin.RouteInfo) (string, string) { return r.Method, r.Path }, ":key") // all begin with key_
}
