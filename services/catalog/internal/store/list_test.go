package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/problem"
)

func TestDetailIncludesCurationAndChanges(t *testing.T) {
	readerOnEach(t, func(r reader) {
		file := apitest.Lines("a")
		file[0].Curation = &api.Curation{Contact: "jo@example.com", Notes: "<n>"}
		r.importLines(file...)
		r.report(r.Publish(r.t.Context(), "bob", []string{"a"}, false))
		detail, err := r.Detail(r.t.Context(), "a")
		require.NoError(t, err)
		require.Contains(t, string(detail.Listing),
			`"visibility":"published","curation":{"contact":"jo@example.com","notes":"<n>"}}`)
		require.Equal(t, "a", detail.Record.ID)
		require.Equal(t, api.Unverified, detail.Record.Verification.Status)
		require.Equal(t, at, detail.CreatedAt)
		require.Equal(t, []api.ListingAct{
			{At: at, Actor: "bob", Action: "published", Fields: []string{"visibility", "publishedAt"}},
			{At: at, Actor: "ann", Action: "imported", Fields: []string{}},
		}, detail.Changes)
		for _, id := range []string{"b", "\x00", "A"} {
			_, err = r.Detail(r.t.Context(), id)
			require.Equal(t, problem.NotFound, problem.Of(err).Code, id)
		}
	})
}
