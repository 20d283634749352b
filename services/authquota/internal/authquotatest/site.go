package authquotatest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/setback"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountview"
	internalapi "opportunity.internal/services/authquota/internal/api"
	"opportunity.internal/services/authquota/internal/dbtx"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/notices"
	"opportunity.internal/services/authquota/internal/pages"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/plan"
	"opportunity.internal/services/authquota/internal/requestlog"
	"opportunity.internal/services/authquota/internal/usage"
)

// PublicURL is the public URL of a Site.
const PublicURL = servicetest.PublicURL

// Actor is the operator who sends the requests of Do.
const Actor = servicetest.Actor

// Pepper hashes the keys of a Site.
var Pepper = []byte("the pepper that tests hash with.")

// Settings are those of a Site.
type Settings struct {
	PublicURL   string // PublicURL if empty
	Contact     string
	Tiers       string // as OPPORTUNITY_TIERS
	AutoApprove bool
	ApproveTest bool
	Terms       string // version; "1" if empty
	Billing     *plan.Billing
}

// Site is the account pages and the internal routes on the stores of a database. Redis is replaced by Charged, Epoch and RedisOutage.
type Site struct {
	DB

	People     *people.Store
	Accounts   *accountview.Store
	Keys       *keys.Store
	Usage      *usage.Store
	RequestLog *requestlog.Store
	Notices    *notices.Store
	Plans      *plan.Store

	Charged     map[string]int // live counters of today, by account
	Epoch       int64          // raised by each change that takes effect
	RedisOutage bool
	Stopped     error // returned by every page, as if the database was set back

	Pages  http.Handler
	Routes http.Handler

	t   testing.TB
	log bytes.Buffer
}

// NewSite returns a Site on a new SQLite database. It is 10:00 on 20 November 2026.
func NewSite(t testing.TB, set ...Settings) *Site {
	t.Helper()
	return NewSiteOn(t, OnSQLite(t), set...)
}

// NewSiteOn returns a Site on a database.
func NewSiteOn(t testing.TB, db DB, set ...Settings) *Site {
	t.Helper()
	var settings Settings
	for _, settings = range set {
	}
	if settings.PublicURL == "" {
		settings.PublicURL = PublicURL
	}
	if settings.Terms == "" {
		settings.Terms = "1"
	}
	tiers, err := account.ParseTiers(settings.Tiers)
	require.NoError(t, err)
	s := &Site{
		DB: db, t: t, Charged: map[string]int{}, Epoch: 1,
		People: people.NewStore(db.DB), Keys: keys.NewStore(db.DB), Usage: usage.NewStore(db.DB), RequestLog: requestlog.NewStore(db.DB),
		Notices: notices.NewStore(db.DB, tiers), Plans: plan.NewStore(db.DB),
	}
	db.Publisher = s
	s.Accounts = accountview.NewStore(db.DB, s.Keys)
	writer := problem.Writer{BaseURL: settings.PublicURL, Log: NewLogger(&s.log)}
	shown, err := pages.New(pages.Config{
		PublicURL: settings.PublicURL, Contact: settings.Contact, MailDirectory: "/srv/mail", TermsVersion: settings.Terms, Peppers: [][]byte{Pepper},
		AutoApprove: settings.AutoApprove, ApproveTest: settings.ApproveTest, Tiers: tiers, Errors: writer, Now: db.Now,
		People: s.People, Accounts: s.Accounts, Keys: s.Keys, Usage: s.Usage, RequestLog: s.RequestLog, Notices: s.Notices, Plans: s.Plans,
		Billing: settings.Billing, Available: s.available, InEffect: s.inEffect, Current: func(context.Context, dbtx.Epoch) error { return nil },
		MoveUsage: func(context.Context, string) error { return s.redis() }, Charged: s.charged, Recent: s.recent,
	})
	require.NoError(t, err)
	s.Pages = shown.Handler()
	s.Routes = internalapi.API{
		Accounts: s.Accounts, Keys: s.Keys, Plans: s.Plans, Usage: s.Usage, RequestLog: s.RequestLog, Notices: s.Notices,
		InEffect: s.inEffect, RedisReachable: func(context.Context) error { return s.redis() },
		Restore: func(context.Context, string) error { return s.redis() },
		Tiers:   tiers, Peppers: [][]byte{Pepper}, Errors: writer, Now: db.Now,
	}.Handler(http.NotFoundHandler())
	return s
}

func (s *Site) available(context.Context) error { return s.Stopped }

func (s *Site) redis() error {
	if s.RedisOutage {
		return problem.Unavailable(errors.New("redis.internal refused"))
	}
	return nil
}

// Published implements dbtx.Publisher.
func (s *Site) Published() setback.Mark { return setback.Mark{} }

// Publish implements dbtx.Publisher.
func (s *Site) Publish(context.Context, setback.Mark, setback.Mark, []dbtx.Epoch) error {
	err := s.redis()
	if err == nil {
		s.Epoch++
	}
	return err
}

func (s *Site) inEffect(ctx context.Context, read func(context.Context) (dbtx.Epoch, error)) error {
	_, err := read(ctx)
	return errors.Join(err, s.redis())
}

func (s *Site) charged(_ context.Context, accountID string, _ time.Time) (int, error) {
	return s.Charged[accountID], s.redis()
}

func (s *Site) recent(_ context.Context, accountID string) (int, error) {
	return min(s.Charged[accountID], 3), s.redis()
}

// Log returns what was logged.
func (s *Site) Log() string { return s.log.String() }

// Break closes the database, so that every later query fails.
func (s *Site) Break() {
	s.t.Helper()
	require.NoError(s.t, s.Close())
}

// Visitor returns a person without an account.
func (s *Site) Visitor() *Person { return NewPerson(s.t, Visit(s.t, s.Pages), s.Now) }

// SignUp returns a person who has signed up and is signed in.
func (s *Site) SignUp(email string) *Person {
	s.t.Helper()
	p := s.Visitor()
	p.SignUp(s.DB, email)
	return p
}

// Do sends a request to the internal routes, as Actor.
func (s *Site) Do(method, path, body string) servicetest.Response {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), method, path, strings.NewReader(body))
	r.Header.Set(api.ActorHeader, Actor)
	w := httptest.NewRecorder()
	s.Routes.ServeHTTP(w, r)
	return servicetest.Recorded(s.t, w)
}

// Issued is the response to a request for a new key.
type Issued struct {
	ID        string    `json:"id"`
	Key       string    `json:"key"`
	Account   string    `json:"account"`
	Tier      api.Tier  `json:"tier"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// Issue issues a key to an account; to a new one if accountID is empty.
func (s *Site) Issue(accountID string) Issued {
	s.t.Helper()
	order := `{"useCase":"testing"}`
	if accountID != "" {
		order = `{"useCase":"testing","account":"` + accountID + `"}`
	}
	return servicetest.Read[Issued](s.Do(http.MethodPost, "/operator/v1/keys", order))
}

// Change suspends, resumes or grants, as Actor.
func (s *Site) Change(accountID, act, body string) {
	s.t.Helper()
	servicetest.Read[api.Account](s.Do(http.MethodPost, "/operator/v1/accounts/"+accountID+"/"+act, body))
}

// Suspend suspends an account.
func (s *Site) Suspend(accountID, reason string) {
	s.Change(accountID, "suspend", `{"reason":"`+reason+`"}`)
}

// Resume resumes an account.
func (s *Site) Resume(accountID string) { s.Change(accountID, "resume", `{"reason":"resolved"}`) }

// Grant grants a tier.
func (s *Site) Grant(accountID string, tier api.Tier) {
	s.Change(accountID, "grant", `{"tier":"`+string(tier)+`"}`)
}

// Entitle stores an entitlement, as billing does.
func (s *Site) Entitle(accountID string, e api.Entitlement) {
	s.t.Helper()
	body, err := json.Marshal(e)
	require.NoError(s.t, err)
	response := s.Do(http.MethodPut, "/internal/v1/entitlements/"+accountID, string(body))
	require.Equal(s.t, http.StatusNoContent, response.Status, response.Body)
}

// Count reports requests of a key with one outcome on a day, as gateways do.
func (s *Site) Count(key, day string, outcome api.CallOutcome, calls int) {
	s.t.Helper()
	body, err := json.Marshal(api.UsageBatch{
		ID: uuid.Must(uuid.NewV7()).String(), Counts: []api.UsageCount{{Day: day, Key: key, Outcome: outcome, Calls: calls, LastAt: s.Now()}},
	})
	require.NoError(s.t, err)
	response := s.Do(http.MethodPost, "/internal/v1/usage-batches", string(body))
	require.Equal(s.t, http.StatusNoContent, response.Status, response.Body)
}

// Decide approves or declines a key request.
func (s *Site) Decide(request, act, body string) servicetest.Response {
	s.t.Helper()
	return s.Do(http.MethodPost, "/operator/v1/keys/requests/"+request+"/"+act, body)
}

// Resolve looks up a key, as gateways do.
func (s *Site) Resolve(key string) servicetest.Response {
	s.t.Helper()
	parsed, ok := apikey.Parse(key)
	require.True(s.t, ok)
	body, err := json.Marshal(api.PrincipalQuery{Digests: parsed.Digests([][]byte{Pepper})})
	require.NoError(s.t, err)
	return s.Do(http.MethodPost, "/internal/v1/principals", string(body))
}

// Principal returns the principal of a key.
func (s *Site) Principal(key string) api.Principal {
	s.t.Helper()
	return servicetest.Read[api.Principal](s.Resolve(key))
}
