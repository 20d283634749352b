package accountpages

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/plan"
	"opportunity.internal/services/authquota/migrations"
)

// Otherwise the person sees the gateway's error instead of our own.
func TestPlanActionsEndBeforeTheGatewayGivesUp(t *testing.T) {
	db := servicetest.OpenDatabase(t, servicetest.NewSchema(migrations.Files).SQLite(t))
	p := &Pages{Config: Config{Billing: new(plan.Billing)}, Plans: plan.NewStore(&accountdb.DB{DB: db, Now: time.Now})}
	v := &Visit{Context: &gin.Context{Request: httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)}}
	latest := time.Now().Add(api.GatewayTimeout)
	require.NoError(t, p.planAction(v, "plan.cancel", func(ctx context.Context) error {
		deadline, bounded := ctx.Deadline()
		require.True(t, bounded)
		require.True(t, deadline.Before(latest))
		return nil
	}))
}
