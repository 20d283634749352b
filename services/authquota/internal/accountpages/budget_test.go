package accountpages_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/authquota/internal/people"
)

// Acts that issue, mail or write share one budget. Revoking is not among them.
func TestActsOfAnAccountShareABudget(t *testing.T) {
	s, b := person(t)
	_, id := obtain(t, s, b, "One")
	renewed := 0
	for renewed < 100 && b.Post("/account/recovery-codes").Status == http.StatusOK {
		renewed++
	}
	require.Equal(t, people.ActRule.Free+1-2, renewed, "the request and the collection of the key count too")
	for path, fields := range map[string][]string{
		"/account/recovery-codes": nil, "/account/keys/new": valid(), "/account/keys/" + id + "/name": {"name", "Two"}, "/account/keys/" + id + "/rotate": nil,
	} {
		p := b.Post(path, fields...).Shows(http.StatusTooManyRequests, "too many changes")
		require.Equal(t, "900", p.Header.Get("Retry-After"), path)
	}
	b.Post("/account/keys/" + id + "/revoke").Leads("/account/keys")
	s.Advance(people.ActRule.First)
	b.Post("/account/keys/new", valid()...).Leads("/account/keys")
}
