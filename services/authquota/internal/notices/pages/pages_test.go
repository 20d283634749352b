package pages_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/authquota/internal/notices"
	"opportunity.internal/services/authquota/internal/pages"
	"opportunity.internal/services/authquota/internal/site"
	"opportunity.internal/services/authquota/internal/site/sitetest"
)

func TestMain(m *testing.M) { sitetest.Main(m, "templates") }

type choices map[notices.Kind]bool

func (c choices) Choices(context.Context, string) (map[notices.Kind]bool, error) { return c, nil }

func (c choices) Choose(_ context.Context, _ string, wanted map[notices.Kind]bool) error {
	clear(c)
	for kind, on := range wanted {
		c[kind] = on
	}
	return nil
}

func TestChoosingNotices(t *testing.T) {
	chosen := choices{notices.KeyExpiry: true}
	s := sitetest.New(t, func(*sitetest.Site) []site.Feature { return []site.Feature{(&pages.Pages{Choices: chosen}).Feature()} })
	p := s.Get("/account/notices").Shows(http.StatusOK, "ada@example.org", "80 % of the day's requests are used", "A payment for your plan failed")
	require.Equal(t, 1, strings.Count(p.Body, "checked"))
	require.Contains(t, p.Body, `value="key-expiry" checked`)

	s.Post("/account/notices", "notice", "day-80", "notice", "minute-limit", "notice", "unknown").Leads("/account/notices")
	require.Len(t, chosen, len(notices.All))
	for kind, on := range chosen {
		require.Equal(t, kind == notices.DayNearlyUsed || kind == notices.MinuteLimit, on, kind)
	}
	s.Get("/account/notices").Shows(http.StatusOK, "Your choice was saved.")
}
