package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	routes "opportunity.internal/services/authquota/internal/api"
	"opportunity.internal/services/authquota/internal/httpapi/httpapitest"
	"opportunity.internal/services/authquota/internal/usage"
)

// failing is a store that returns an error.
type failing struct{ err error }

func (f failing) Restore(context.Context, string) error           { return f.err }
func (f failing) Count(context.Context, usage.Batch) (int, error) { return 0, f.err }
func (f failing) ByTier(context.Context, usage.Range) ([]usage.TierCount, error) {
	return nil, f.err
}

func TestFailures(t *testing.T) {
	for name, request := range map[string][3]string{
		"count":   {http.MethodPost, "/internal/v1/tallies", `{"id":"0199a7a0-0000-7000-8000-000000000000","tallies":[]}`},
		"restore": {http.MethodPost, "/internal/v1/usage/2026-11-20/restore", ""},
		"tiers":   {http.MethodGet, "/operator/v1/usage?days=7", ""},
	} {
		httpapitest.RequireStatuses(t, name, func(failure error) *httptest.ResponseRecorder {
			store := failing{failure}
			list := routes.API{Counters: store, Batches: store, Charts: store, Now: time.Now}.Routes()
			return httpapitest.Do(t, list, request[0], request[1], request[2])
		})
	}
}
