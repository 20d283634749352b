package keyusage_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/keyusage"
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
		_, err := keyusage.CheckRequests([]api.LoggedRequest{logged(0), r}, now)
		require.ErrorContains(t, err, "requests[1]."+field)
	}
	_, err := keyusage.CheckRequests(make([]api.LoggedRequest, api.MaxUsageRequests+1), now)
	require.ErrorContains(t, err, "at most 1000")
}

func TestCheckLeavesOutWhatIsNotStored(t *testing.T) {
	ahead, old, odd := logged(1), logged(2), logged(3)
	ahead.At, old.At = now.Add(time.Hour), now.Add(-api.RequestLogDuration)
	odd.Params, odd.Code = "q=private&remote=true", "code_of_another_release"
	got, err := keyusage.CheckRequests([]api.LoggedRequest{ahead, old, odd}, now)
	require.NoError(t, err)
	ahead.At, odd.Params, odd.Code = now, "remote=true", ""
	require.Equal(t, []api.LoggedRequest{ahead, odd}, got)
}

func TestFilterAndPages(t *testing.T) {
	var all []keyusage.Request
	for i := range 120 {
		r := logged(i)
		r.Status = []int{200, 304, 404, 500}[i%4]
		all = append(all, keyusage.Request{LoggedRequest: r})
	}
	require.Len(t, keyusage.RequestFilter{Result: keyusage.ResultSuccessful}.Apply(all), 60)
	require.Len(t, keyusage.RequestFilter{Result: keyusage.ResultRejected}.Apply(all), 30)
	require.Len(t, keyusage.RequestFilter{Result: keyusage.ResultFailed}.Apply(all), 30)
	require.Equal(t, all[7:8], keyusage.RequestFilter{ID: id(7)}.Apply(all))
	require.Empty(t, keyusage.RequestFilter{ID: id(7), Key: "key_other"}.Apply(all))

	var walked []keyusage.Request
	after := ""
	for more := true; more; after = walked[len(walked)-1].ID {
		var page []keyusage.Request
		page, more = keyusage.RequestPage(all, after)
		walked = append(walked, page...)
	}
	require.Equal(t, all, walked, "each request once")
	first, _ := keyusage.RequestPage(all, id(999))
	require.Equal(t, all[:keyusage.RequestPageSize], first, "a request that has left the log")
	last, more := keyusage.RequestPage(all, id(119))
	require.Empty(t, last)
	require.False(t, more)
}
