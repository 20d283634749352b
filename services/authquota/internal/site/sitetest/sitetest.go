// Package sitetest visits pages in tests, with a browser without JavaScript.
package sitetest

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/site"
)

// PublicURL is the public URL of the site.
const PublicURL = servicetest.PublicURL

// Site is a site whose session store has one person, signed in to the browser.
type Site struct {
	*Browser

	Now     time.Time
	Person  people.Person
	Current people.Session
	Outage  error // returned by the session store if not nil

	log bytes.Buffer
}

// Secret is the secret of the session.
const Secret = "the secret of the session"

// New returns a site at 10:00 on 20 November 2026 with the features that add returns.
func New(t testing.TB, add func(s *Site) []site.Feature) *Site {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	s := &Site{
		Now: now,
		Person: people.Person{
			Account: "acc_0199a7a0000070008000000000000000", Email: "ada@example.org", AuthenticatorConfirmed: true,
			Standing: account.Standing{Granted: api.BaseTier}, Tier: api.BaseTier,
		},
		Current: people.Session{ID: "ses_0199a7a0000070008000000000000000", Stage: people.Full, AuthenticatedAt: now},
	}
	pages, err := site.New(site.Config{
		Errors: problem.Writer{BaseURL: PublicURL, Log: s.Logger()}, PublicURL: PublicURL,
		Now: func() time.Time { return s.Now }, Sessions: s, Available: Always,
	}, add(s)...)
	require.NoError(t, err)
	s.Browser = Visit(t, pages.Handler())
	s.Cookies["__Host-session"] = Secret
	return s
}

// Always is an Available function of a site without outages.
func Always(context.Context) error { return nil }

// Session returns the session and the person for the secret of the browser.
func (s *Site) Session(_ context.Context, given string) (people.Session, people.Person, error) {
	switch {
	case s.Outage != nil:
		return people.Session{}, people.Person{}, s.Outage
	case given != Secret:
		return people.Session{}, people.Person{}, problem.New(problem.NotFound, "There is no such session.")
	}
	return s.Current, s.Person, nil
}

// Logger returns a logger that writes to Log.
func (s *Site) Logger() *slog.Logger { return NewLogger(&s.log) }

// Log returns what was logged.
func (s *Site) Log() string { return s.log.String() }
