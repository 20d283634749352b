package accountpages_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/authquota/internal/notices"
)

func TestChoosingNotices(t *testing.T) {
	s, b := person(t)
	before, err := s.Notices.Choices(t.Context(), b.Account)
	require.NoError(t, err)
	p := b.Get("/account/notices").Shows(http.StatusOK, "ada@example.org", "80 % of the day's requests are used", "A payment for your plan failed")
	for _, c := range notices.All {
		checked := `value="` + string(c.Kind) + `" checked`
		require.Equal(t, before[c.Kind], p.Has(checked), c.Kind)
	}
	b.Post("/account/notices", "notice", "day-80", "notice", "minute-limit", "notice", "unknown").Leads("/account/notices")
	chosen, err := s.Notices.Choices(t.Context(), b.Account)
	require.NoError(t, err)
	for _, c := range notices.All {
		require.Equal(t, c.Kind == notices.DayNearlyUsed || c.Kind == notices.MinuteLimit, chosen[c.Kind], c.Kind)
	}
	b.Get("/account/notices").Shows(http.StatusOK, "Your choice was saved.")
}
