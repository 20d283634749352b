package pages_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/pages"
	"opportunity.internal/services/authquota/internal/site"
	"opportunity.internal/services/authquota/internal/site/sitetest"
	"opportunity.internal/services/authquota/internal/usage"
)

func TestMain(m *testing.M) { sitetest.Main(m, "templates") }

// store is a fake of the account's summary and usage.
type store struct {
	keys.Overview
	used int
}

func (s *store) UsedOn(context.Context, string, time.Time) (int, error) { return s.used, nil }
func (s *store) Used(context.Context, string, time.Time) (int, error)   { return s.used, nil }
func (s *store) ByDay(context.Context, string, usage.Range) ([]usage.DayCount, error) {
	return nil, nil
}

// reader reads the summary of a store; store itself has a field of that name.
type reader struct{ *store }

func (r reader) Overview(context.Context, string) (keys.Overview, error) {
	return r.store.Overview, nil
}

func start(t *testing.T) (*sitetest.Site, *store) {
	t.Helper()
	tiers, err := account.ParseTiers("commercial=300/20000/100")
	require.NoError(t, err)
	fake := new(store)
	return sitetest.New(t, func(*sitetest.Site) []site.Feature {
		p := &pages.Pages{
			PublicURL: sitetest.PublicURL, Overview: reader{fake}, Allowances: site.Allowances{Tiers: tiers, Counters: fake, Ledger: fake},
		}
		return []site.Feature{p.Feature()}
	}), fake
}

func TestFirstSteps(t *testing.T) {
	s, store := start(t)
	s.Person.RecoveryCodesLeft = 2
	p := s.Get("/account").Shows(http.StatusOK, "First steps", "Request a key", "0 of 5 in use", "You have 2 recovery codes left.",
		"ada@example.org", "https://api.example/api/v1/opportunities")
	require.Equal(t, 1, strings.Count(p.Body, `<li class="done">`))
	require.Contains(t, p.Body, `<a href="/account/keys/new">Request a key`)
	store.Active = 1
	require.Contains(t, s.Get("/account").Body, `<a href="/account/explorer">Send the first request</a>`)
	store.Called = true
	require.NotContains(t, s.Get("/account").Text(), "First steps")
	store.Called, store.used = false, 1
	require.NotContains(t, s.Get("/account").Text(), "First steps")
}

func TestKeysInUse(t *testing.T) {
	s, store := start(t)
	store.Pending, store.Ready = 1, 2
	s.Get("/account").Shows(http.StatusOK, "3 of 5 in use (pending key requests included)", "One key request is waiting for approval.",
		"2 keys are approved and ready to collect.")
	far, near := s.Now.AddDate(0, 0, 31), s.Now.AddDate(0, 0, 30)
	store.Active, store.Expiring = 2, &far
	require.NotContains(t, s.Get("/account").Shows(http.StatusOK, "The next one expires on 21 December 2026").Text(), "Soon")
	store.Expiring = &near
	s.Get("/account").Shows(http.StatusOK, "Soon", "Rotate it before then")
}

func TestOverviewShowsTheTier(t *testing.T) {
	s, store := start(t)
	store.used = 7
	s.Get("/account").Shows(http.StatusOK, "7 of 100 requests charged, 93 left")
	s.Person.Tier = api.Commercial
	s.Get("/account").Shows(http.StatusOK, "Business", "20,000 requests a day")
}
