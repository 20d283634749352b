package requestlog_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/requestlog"
)

var now = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

func id(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

func logged(n int) api.LoggedRequest {
	return api.LoggedRequest{
		ID: id(n), Key: "key_0199a7a0000070008000000000000000", At: now, Route: "/api/v1/opportunities/{id}/history", Status: 200, Duration: time.Second,
	}
}

func TestCheckRejectsForgedFields(t *testing.T) {
	for field, forge := range map[string]func(*api.LoggedRequest){
		"id":       func(r *api.LoggedRequest) { r.ID = "private text" },
		"key":      func(r *api.LoggedRequest) { r.Key = "oda_live_x" },
		"route":    func(r *api.LoggedRequest) { r.Route = "/api/v1/opportunities/a private name" },
		"status":   func(r *api.LoggedRequest) { r.Status = 0 },
		"duration": func(r *api.LoggedRequest) { r.Duration = -1 },
	} {
		r := logged(1)
		forge(&r)
		_, err := requestlog.Check([]api.LoggedRequest{logged(0), r}, now)
		require.ErrorContains(t, err, "requests[1]."+field)
	}
	_, err := requestlog.Check(make([]api.LoggedRequest, api.MaxUsageRequests+1), now)
	require.ErrorContains(t, err, "at most 1000")
}

func TestCheckLeavesOutWhatIsNotStored(t *testing.T) {
	ahead, old, odd := logged(1), logged(2), logged(3)
	ahead.At, old.At = now.Add(time.Hour), now.Add(-api.RequestLogDuration)
	odd.Params, odd.Code = "q=private&remote=true", "code_of_another_release"
	got, err := requestlog.Check([]api.LoggedRequest{ahead, old, odd}, now)
	require.NoError(t, err)
	ahead.At, odd.Params, odd.Code = now, "remote=true", ""
	require.Equal(t, []api.LoggedRequest{ahead, odd}, got)
}

func TestFilterAndPages(t *testing.T) {
	var all []requestlog.Request
	for i := range 120 {
		r := logged(i)
		r.Status = []int{200, 304, 404, 500}[i%4]
		all = append(all, requestlog.Request{LoggedRequest: r})
	}
	require.Len(t, requestlog.Filter{Result: requestlog.Successful}.Apply(all), 60)
	require.Len(t, requestlog.Filter{Result: requestlog.Rejected}.Apply(all), 30)
	require.Len(t, requestlog.Filter{Result: requestlog.Failed}.Apply(all), 30)
	require.Equal(t, all[7:8], requestlog.Filter{ID: id(7)}.Apply(all))
	require.Empty(t, requestlog.Filter{ID: id(7), Key: "key_other"}.Apply(all))

	var walked []requestlog.Request
	after := ""
	for more := true; more; after = walked[len(walked)-1].ID {
		var page []requestlog.Request
		page, more = requestlog.Page(all, after)
		walked = append(walked, page...)
	}
	require.Equal(t, all, walked, "each request once")
	first, _ := requestlog.Page(all, id(999))
	require.Equal(t, all[:requestlog.PageSize], first, "a request that has left the log")
	last, more := requestlog.Page(all, id(119))
	require.Empty(t, last)
	require.False(t, more)
}
