package catalog_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/catalog/internal/listingtest"
)

const changesPath = "/api/v1/changes"

func TestChangesFollowTheSpecification(t *testing.T) {
	s := start(t, schema.SQLite(t))
	records := listingtest.Records(3, 60, startTime)
	s.load(records)
	public := listingtest.Published(records, startTime)
	s.clock.Advance(3 * time.Second)
	var first api.ChangeList
	storetest.Eventually(t, "all changes are listed", func() bool {
		first = servicetest.Read[api.ChangeList](s.get(api.Commercial, changesPath+"?limit=100"))
		return len(first.Data) == len(public)
	})
	require.Nil(t, first.Pagination.Next)
	require.Equal(t, api.NewMeta(api.Commercial, s.clock.Now()), first.Meta)

	page := servicetest.Read[api.ChangeList](s.get(api.Developer, changesPath+"?limit=100"))
	require.Equal(t, 50, page.Pagination.Limit, "the limit of the tier")
	require.Equal(t, servicetest.PublicURL+changesPath+"?after="+page.Data[49].Cursor+"&limit=50",
		*page.Pagination.Next)
	rest := servicetest.Read[api.ChangeList](s.get(api.Developer,
		strings.TrimPrefix(*page.Pagination.Next, servicetest.PublicURL)))
	require.Equal(t, first.Data, append(page.Data, rest.Data...))
	require.Equal(t, first.Pagination.Cursor, rest.Pagination.Cursor)

	newest := s.get(api.Commercial, changesPath+"?after=now")
	require.Equal(t, api.ChangeList{
		Data: []api.RecordChange{}, Meta: first.Meta,
		Pagination: api.CursorPagination{Limit: 10, Cursor: first.Pagination.Cursor},
	}, servicetest.Read[api.ChangeList](newest))
	tag := newest.Header.Get("ETag")
	again := s.get(api.Commercial, changesPath+"?limit=10&after=now", "If-None-Match", tag)
	require.Equal(t, http.StatusNotModified, again.Status)
	require.Equal(t, http.StatusOK, s.get(api.Developer, changesPath+"?after=now", "If-None-Match", tag).Status)

	path := changesPath + "?after=" + first.Pagination.Cursor
	tag = s.get(api.Commercial, path).Header.Get("ETag")
	require.Equal(t, 1, s.curate("withdraw", `{"ids":["`+public[0].ID+`"]}`).Updated)
	require.Equal(t, http.StatusNotModified, s.get(api.Commercial, path, "If-None-Match", tag).Status,
		"other replicas may not have loaded it")
	s.clock.Advance(3 * time.Second)
	storetest.Eventually(t, "the change is loaded", func() bool {
		return s.get(api.Commercial, path, "If-None-Match", tag).Status == http.StatusOK
	})
	changed := servicetest.Read[api.ChangeList](s.get(api.Commercial, path)).Data
	require.Len(t, changed, 1)
	require.Equal(t, api.RecordChange{ID: public[0].ID, Change: api.ChangeWithdrawn, At: startTime.Add(3 * time.Second),
		Cursor: changed[0].Cursor}, changed[0])

	s.get(api.Free, changesPath).RequireError(problem.SubscriptionRequired)
}
