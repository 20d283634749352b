package pages_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/pages"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/site"
	"opportunity.internal/services/authquota/internal/site/sitetest"
	"opportunity.internal/services/authquota/internal/usage"
)

func TestMain(m *testing.M) { sitetest.Main(m, "templates") }

const (
	keyID     = "key_0199a7a0000070008000000000000000"
	requestID = "req_0199a7a0000070008000000000000000"
)

// store is a fake of the stores behind the pages. It records changes.
type store struct {
	keys     []keys.Key
	requests []keys.Request
	hadTest  bool
	wait     time.Duration // before another attempt to connect a key
	err      error         // of changes
	changes  []string
}

func (s *store) change(format string, args ...any) error {
	s.changes = append(s.changes, fmt.Sprintf(format, args...))
	return s.err
}

func (s *store) OwnKeys(context.Context, string) ([]keys.Key, error) { return s.keys, nil }

func (s *store) OwnKey(_ context.Context, _, id string) (keys.Key, error) {
	for _, k := range s.keys {
		if k.ID == id {
			return k, nil
		}
	}
	return keys.Key{}, keys.NotFound()
}

func (s *store) Rename(_ context.Context, _, id, name string) error {
	return s.change("rename %s %s", id, name)
}

func (s *store) SentOn(context.Context, string, time.Time) (map[string]usage.Figures, error) {
	return map[string]usage.Figures{keyID: {usage.Served: 3, usage.Rejected: 23}}, nil
}

func (s *store) OwnRequests(context.Context, string) ([]keys.Request, error) {
	return s.requests, nil
}

func (s *store) RequestKey(_ context.Context, _ string, wanted keys.RequestedKey, terms account.Acceptance, atOnce bool) (keys.Request, error) {
	state := keys.Pending
	if atOnce || wanted.Test {
		state = keys.Approved
	}
	return keys.Request{ID: requestID, State: state}, s.change("request %s|%s %t", wanted.Name, wanted.UseCase, terms.Accepted)
}

func (s *store) HadTestKey(context.Context, string) (bool, error) { return s.hadTest, nil }

func (s *store) Withdraw(_ context.Context, _, id string) error { return s.change("withdraw %s", id) }

func (s *store) Collect(_ context.Context, _, id string, terms account.Acceptance, stored keys.Record) (keys.Key, error) {
	return keys.Key{Name: "Website", Prefix: stored.Prefix, LastFour: stored.LastFour}, s.change("collect %s %t", id, terms.Accepted)
}

func (s *store) Rotate(_ context.Context, _, id string, _ keys.Record) (successor, old keys.Key, err error) {
	return keys.Key{}, keys.Key{}, s.change("rotate %s", id)
}

func (s *store) RevokeOwn(_ context.Context, _, id string) (keys.Key, error) {
	return keys.Key{Name: "Website"}, s.change("revoke %s", id)
}

func (s *store) Connect(_ context.Context, _ string, digests []string) (int, error) {
	return 3, s.change("connect %d", len(digests))
}

func (s *store) KnownDevice(context.Context, string, string) (bool, error) { return true, nil }

func (s *store) CountAttempt(context.Context, ...people.AttemptSubject) (time.Duration, error) {
	return s.wait, nil
}

// start returns a site whose person has one active key. adjust changes the settings of the pages.
func start(t *testing.T, adjust ...func(*pages.Pages)) (*sitetest.Site, *store) {
	t.Helper()
	fake := new(store)
	s := sitetest.New(t, func(*sitetest.Site) []site.Feature {
		p := &pages.Pages{
			Keys: fake, KeyUsage: fake, Requests: fake, TestKeys: fake, Rotations: fake, Revocations: fake, Connections: fake, Attempts: fake,
			Peppers: [][]byte{[]byte("the pepper that tests hash with.")}, TermsVersion: "2",
			Apply: func(context.Context, string) error { return nil },
		}
		for _, a := range adjust {
			a(p)
		}
		return []site.Feature{p.Feature()}
	})
	fake.keys = []keys.Key{key(s, "Website")}
	return s, fake
}

func key(s *sitetest.Site, name string) keys.Key {
	return keys.Key{
		ID: keyID, Name: name, Prefix: "oda_live_", LastFour: "abcd", UseCase: "a job board", CreatedAt: s.Now, ExpiresAt: s.Now.AddDate(1, 0, 0),
	}
}

// valid is a valid key request, except for fields that override it.
func valid(fields ...string) []string {
	form := map[string]string{"name": "Website", "useCase": "a job board", "terms": "accepted", "termsVersion": "2"}
	for i := 0; i < len(fields); i += 2 {
		form[fields[i]] = fields[i+1]
	}
	var list []string
	for name, value := range form {
		list = append(list, name, value)
	}
	return list
}

func TestInvalidKeyRequestsAreExplained(t *testing.T) {
	s, store := start(t)
	for _, c := range []struct{ field, value, message string }{
		{"name", " ", "Enter a name of at most 60 characters."},
		{"name", strings.Repeat("x", 61), "The name must have 1 to 60 characters."},
		{"name", "Web\u202esite", "The name must be one line without control or invisible characters."},
		{"useCase", "\r\n", "Tell us what you will use the data for."},
		{"useCase", strings.Repeat("x", 501), "The use case must have 1 to 500 characters."},
		{"useCase", "instead of oda_live_x", "The use case must not contain an API key."},
		{"terms", "no", "Accept the terms of use to get a key."},
		{"termsVersion", "1", "The terms of use have changed. Read and accept version 2."},
	} {
		p := s.Post("/account/keys/new", valid(c.field, c.value)...).Shows(http.StatusUnprocessableEntity, "There is a problem", c.message)
		require.Equal(t, 1, strings.Count(p.Body, `<li><a href="#`), "one problem")
	}
	s.Post("/account/keys/new", "name", "<b>Board</b>", "useCase", "<b>x</b>").Shows(http.StatusUnprocessableEntity, "<b>x</b>")
	require.Empty(t, store.changes)
}

func TestKeyRequestIsStoredInItsCanonicalForm(t *testing.T) {
	s, store := start(t)
	s.Post("/account/keys/new", valid("name", " Website ", "useCase", "a job board\r\nfor Ontario")...).Leads("/account/keys")
	require.Equal(t, []string{"request Website|a job board for Ontario true"}, store.changes)
	store.err = keys.LimitReached()
	s.Post("/account/keys/new", valid()...).Shows(http.StatusUnprocessableEntity, "5 active keys and pending requests")
}

func TestApprovedRequestLeadsToItsKey(t *testing.T) {
	s, store := start(t, func(p *pages.Pages) { p.AutoApprove = true })
	s.Post("/account/keys/new", valid()...).Leads("/account/keys/requests/" + requestID + "/collect")
	store.requests = []keys.Request{{ID: requestID, Name: "Website", State: keys.Approved}}
	collect := "/account/keys/requests/" + requestID + "/collect"
	s.Get(collect).Shows(http.StatusOK, "once", "I accept the terms of use, version 2.")
	s.Post(collect).Shows(http.StatusUnprocessableEntity, "Accept the terms of use to get a key.")
	p := s.Post(collect, "terms", "accepted", "termsVersion", "2").Shows(http.StatusOK, "Copy your key now", "curl -H 'Authorization: Bearer oda_live_")
	require.Equal(t, "no-store", p.Header.Get("Cache-Control"))
	require.Equal(t, "collect "+requestID+" true", store.changes[1])
}

func TestTestKeyIsOfferedOnceOnTheBaseTier(t *testing.T) {
	const kinds = `name="kind"`
	s, store := start(t)
	require.NotContains(t, s.Get("/account/keys/new").Body, kinds, "switched off")
	s.Post("/account/keys/new", valid("kind", "test")...).Shows(http.StatusUnprocessableEntity, "cannot get a test key")
	require.Empty(t, store.changes)

	s, store = start(t, func(p *pages.Pages) { p.ApproveTest = true })
	p := s.Get("/account/keys/new").Shows(http.StatusOK, "Test key: you get it now", "an operator approves it first")
	require.Contains(t, p.Body, `value="test" checked`)
	s.Post("/account/keys/new", valid("kind", "live")...).Leads("/account/keys")
	s.Post("/account/keys/new", valid("kind", "test")...).Leads("/account/keys/requests/" + requestID + "/collect")
	store.requests = []keys.Request{{ID: requestID, Name: "Website", State: keys.Approved, Test: true}}
	s.Post("/account/keys/requests/"+requestID+"/collect", "terms", "accepted", "termsVersion", "2").Shows(http.StatusOK, "Bearer oda_test_")

	s.Person.Tier = api.Developer
	require.NotContains(t, s.Get("/account/keys/new").Body, kinds)
	s.Person.Tier, store.hadTest = api.BaseTier, true
	require.NotContains(t, s.Get("/account/keys/new").Body, kinds)
	s.Post("/account/keys/new", valid("kind", "test")...).Shows(http.StatusUnprocessableEntity, "cannot get a test key")
}

func TestAcceptedTermsAreNotAskedAgain(t *testing.T) {
	s, store := start(t)
	s.Person.Terms = &account.Terms{Version: "2", AcceptedAt: s.Now}
	p := s.Get("/account/keys/new").Shows(http.StatusOK, "You accepted this version on 20 November 2026, 10:00 UTC")
	require.NotContains(t, p.Body, "checkbox")
	s.Post("/account/keys/new", "name", "Website", "useCase", "x").Leads("/account/keys")
	require.Equal(t, []string{"request Website|x false"}, store.changes)
	s.Person.Terms.Version = "1"
	s.Get("/account/keys/new").Shows(http.StatusOK, "You accepted version 1", "The terms have changed since then.")
}

func TestKeyList(t *testing.T) {
	s, store := start(t)
	store.keys, store.requests = nil, nil
	s.Get("/account/keys").Shows(http.StatusOK, "0 of 5 keys in use", "You have no active keys")

	replaced, ending := key(s, "Replaced one"), key(s, "Ending one")
	replaced.ReplacedAt, ending.ExpiresAt = &s.Now, s.Now.AddDate(0, 0, 29)
	store.keys = []keys.Key{replaced, ending, key(s, "")}
	store.requests = []keys.Request{{ID: requestID, Name: "Requested", State: keys.Pending}, {Name: "No", State: keys.Declined, Reason: "say who reads it", DecidedAt: &s.Now}}
	p := s.Get("/account/keys").Shows(http.StatusOK, "3 of 5 keys in use", "Requested", "Waiting for approval", "Declined", "say who reads it",
		"Replaced", "Soon", "Unnamed key", "26 sent, 3 charged")
	require.Greater(t, strings.Index(p.Text(), "Replaced one"), strings.Index(p.Text(), "Unnamed key"), "keys in their grace period come last")
}

// The page stays short for an account with many ended keys.
func TestKeyListShowsTheLatestOfManyEndedKeys(t *testing.T) {
	s, store := start(t)
	for i := range 60 {
		ended := key(s, fmt.Sprintf("Past %d.", i))
		ended.RevokedAt = &s.Now
		store.keys = append(store.keys, ended)
	}
	p := s.Get("/account/keys").Shows(http.StatusOK, "Ended keys (50 of 60)", "And 10 older ones", "Past 59.", "Past 10.", "Website")
	require.NotContains(t, p.Text(), "Past 9.")
}

func TestRenamingAKey(t *testing.T) {
	s, store := start(t)
	const rename = "/account/keys/" + keyID + "/name"
	s.Post(rename, "name", strings.Repeat("x", 61)).Shows(http.StatusUnprocessableEntity, "The name must have 1 to 60 characters.", "Website")
	require.Empty(t, store.changes)
	s.Post(rename, "name", "Board <3").Leads("/account/keys/" + keyID)
	require.Equal(t, []string{"rename " + keyID + " Board <3"}, store.changes)
}

func TestUnknownKeysAndRequestsAreNotFound(t *testing.T) {
	s, store := start(t)
	for _, id := range []string{"x", "key_0199a7a0000070008000000000000009", requestID} {
		s.Get("/account/keys/" + id).Shows(http.StatusNotFound)
		s.Post("/account/keys/"+id+"/name", "name", "mine").Shows(http.StatusNotFound)
		s.Post("/account/keys/" + id + "/rotate").Shows(http.StatusNotFound)
		s.Get("/account/keys/" + id + "/revoke").Shows(http.StatusNotFound)
		s.Get("/account/keys/requests/" + id + "/collect").Shows(http.StatusNotFound)
	}
	s.Post("/account/keys/requests/x/withdraw").Shows(http.StatusNotFound)
	s.Post("/account/keys/requests/x/collect").Shows(http.StatusNotFound)
	s.Post("/account/keys/x/revoke").Shows(http.StatusNotFound)
	require.Empty(t, store.changes)
}

func TestRotationIsOfferedOnce(t *testing.T) {
	s, store := start(t)
	const rotate = "/account/keys/" + keyID + "/rotate"
	s.Get(rotate).Shows(http.StatusOK, "Rotate Website?", "20 November 2027, 10:00 UTC", "21 November 2026, 10:00 UTC")
	s.Post(rotate).Shows(http.StatusOK, "Copy your key now")
	store.keys[0].ReplacedAt = &s.Now
	s.Get(rotate).Shows(http.StatusBadRequest, "already rotated")
}

func TestRevocationIsConfirmed(t *testing.T) {
	s, store := start(t)
	s.Get("/account/keys/"+keyID+"/revoke").Shows(http.StatusOK, "Website", "cannot be undone")
	require.Empty(t, store.changes)
	s.Post("/account/keys/" + keyID + "/revoke").Leads("/account/keys")
	require.Equal(t, []string{"revoke " + keyID}, store.changes)
}

// A new key cannot be shown again, so it is shown even if its change takes effect later.
func TestChangesThatTakeEffectLaterAreSaid(t *testing.T) {
	s, _ := start(t, func(p *pages.Pages) {
		p.Apply = func(context.Context, string) error { return errors.New("refused") }
	})
	s.Post("/account/keys/"+keyID+"/rotate").Shows(http.StatusOK, "Copy your key now", "takes effect shortly")
	s.Post("/account/keys/" + keyID + "/revoke").Leads("/account/keys")
	s.Get("/account/keys").Shows(http.StatusOK, "Website was revoked", "takes effect shortly")
}

func TestSensitiveKeyActionsNeedRecentProof(t *testing.T) {
	s, store := start(t)
	s.Now = s.Now.Add(11 * time.Minute)
	for _, path := range []string{
		"/account/keys/" + keyID + "/rotate", "/account/keys/" + keyID + "/revoke", "/account/keys/requests/" + requestID + "/collect", "/account/keys/connect",
	} {
		confirm := "/account/security/confirm?next=" + strings.ReplaceAll(path, "/", "%2F")
		s.Get(path).Leads(confirm)
		s.Post(path, "key", "x").Leads(confirm)
	}
	require.Empty(t, store.changes)
	s.Get("/account/keys").Shows(http.StatusOK)
	s.Post("/account/keys/requests/" + requestID + "/withdraw").Leads("/account/keys")
}

func TestConnectingAKey(t *testing.T) {
	s, store := start(t)
	for _, given := range []string{"", "  ", strings.Repeat("x", 501)} {
		s.Post("/account/keys/connect", "key", given).Shows(http.StatusUnprocessableEntity, "Paste the whole key")
	}
	require.Empty(t, store.changes)
	s.Post("/account/keys/connect", "key", " older-key ").Leads("/account/keys")
	s.Get("/account/keys").Shows(http.StatusOK, "The key and 2 others of its account are connected.")
	for err, message := range map[error]string{keys.NotFound(): "This key is unknown", keys.Connected(): "another person's account"} {
		store.err = err
		p := s.Post("/account/keys/connect", "key", "older-key").Shows(http.StatusUnprocessableEntity, message)
		require.NotContains(t, p.Body, "older-key", "input is not repeated")
	}
	store.wait = 100 * time.Second
	p := s.Post("/account/keys/connect", "key", "older-key").Shows(http.StatusTooManyRequests, "Wait 2 minutes")
	require.Equal(t, "100", p.Header.Get("Retry-After"))
}

func TestSuspendedAccountIsNotOfferedRotation(t *testing.T) {
	s, _ := start(t)
	s.Person.SuspendedAt = &s.Now
	p := s.Get("/account/keys").Shows(http.StatusOK, "This account is suspended", "Website")
	require.NotContains(t, p.Body, "/rotate")
}
