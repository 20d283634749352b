package edge

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
)

// Redis fails over between the lookup of a key and the reply of the new primary. The call is
// decided again with a new lookup.
func TestFailoverDuringACallLooksTheKeyUpAgain(t *testing.T) {
	e, lookups := newEdge(t), 0
	// during the first admission
	counters := e.admits(t, func() api.Principal { lookups++; return principal() }, func() { e.Keys.NewTerm() }).Client()
	e.Catalog = replies(t, http.StatusOK, "{}", "Content-Type", "application/json")
	w := e.send(t, http.MethodGet, "/api/v1/opportunities", "", "Authorization",
		bearer())
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Equal(t, 2, lookups)
	charged := counters.HGet(t.Context(), counter.Day(counter.DayOf(time.Now())), "acc_a").Val()
	require.Equal(t, "1", charged, "the first decision was refunded")
}
