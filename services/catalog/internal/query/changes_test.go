package query_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/catalog/internal/listing"
	"opportunity.internal/services/catalog/internal/query"
)

func TestParseChanges(t *testing.T) {
	cursor := listing.Position{Sequence: 7, ID: "ABC"}.Cursor()
	for raw, want := range map[string]query.Changes{
		"":                        {Limit: 10},
		"after=now&limit=100":     {After: query.Now, Limit: 50},
		"limit=7&after=" + cursor: {After: cursor, Position: listing.Position{Sequence: 7, ID: "ABC"}, Limit: 7},
		"after=" + zero.Cursor():  {After: zero.Cursor(), Limit: 10},
	} {
		got, err := query.ParseChanges(raw, 50)
		require.NoError(t, err, raw)
		require.Equal(t, want, got, raw)
	}
	for raw, code := range map[string]problem.Code{
		"page=1": problem.UnknownParameter, "after=now&after=now": problem.DuplicateParameter,
		"after=":  problem.InvalidParameter,
		"limit=0": problem.InvalidParameter, "after=NOW": problem.InvalidParameter, "after=7": problem.InvalidParameter,
		"after=" + cursor + "%3D":                                     problem.InvalidParameter,
		"after=" + listing.Position{Sequence: 7}.Cursor():             problem.InvalidParameter,
		"after=" + listing.Position{ID: "ABC"}.Cursor():               problem.InvalidParameter,
		"after=" + listing.Position{Sequence: -7, ID: "ABC"}.Cursor(): problem.InvalidParameter,
		"after=" + strings.Repeat("a", 4000):                          problem.InvalidParameter,
	} {
		_, err := query.ParseChanges(raw, 50)
		require.Equal(t, code, problem.Of(err).Code, raw)
	}
}

var zero listing.Position

// FuzzParseChanges checks that ParseChanges returns either a 400, or a query whose canonical form
// parses to the same query.
func FuzzParseChanges(f *testing.F) {
	f.Add("after=" + listing.Position{Sequence: 7, ID: "ABC"}.Cursor() + "&limit=7")
	f.Add("after=now")
	f.Add("after=MC4")
	f.Fuzz(func(t *testing.T, raw string) {
		q, err := query.ParseChanges(raw, 50)
		if err != nil {
			require.Equal(t, 400, problem.Of(err).Code.Status())
			return
		}
		again, err := query.ParseChanges(params.Encode(q.Params()), 50)
		require.NoError(t, err)
		require.Equal(t, q, again)
	})
}
