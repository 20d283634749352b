package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/routetest"
	"opportunity.internal/services/billing/internal/httpapi"
	"opportunity.internal/services/billing/internal/reconcile"
	"opportunity.internal/services/billing/internal/sales"
	"opportunity.internal/services/billing/internal/store"
)

func TestRoutesHaveRules(t *testing.T) {
	engine, ok := httpapi.API{
		Errors: problem.Writer{}, Ready: http.NotFoundHandler(),
		Sales:   sales.Sales{Reconciler: reconcile.Reconciler{Store: &store.Store{}}},
		Webhook: new(httpapi.Webhook), SandboxPages: http.NotFoundHandler(),
	}.Handler().(*gin.Engine)
	require.True(t, ok)
	routetest.RequireRules(t, peer.Billing, engine.Routes())
}
