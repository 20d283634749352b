package accountpages_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/testkit"
	"opportunity.internal/services/authquota/internal/testkit/sitekit"
)

// valid is a valid key request, except for fields that override it.
func valid(fields ...string) []string {
	form := map[string]string{"name": "Website", "useCase": "a job board", "terms": "accepted", "termsVersion": "1"}
	for i := 0; i < len(fields); i += 2 {
		form[fields[i]] = fields[i+1]
	}
	var list []string
	for name, value := range form {
		list = append(list, name, value)
	}
	return list
}

func listed(s *sitekit.Site, query string) []api.KeyRequest {
	return servicetest.Read[api.KeyRequestList](s.Do(http.MethodGet, "/operator/v1/keys/requests"+query, "")).Requests
}

func TestInvalidKeyRequestsAreExplained(t *testing.T) {
	s, b := person(t, func(c *authquota.Config) { c.TermsVersion = "2" })
	for _, c := range []struct{ field, value, message string }{
		{"name", " ", "Enter a name of at most 60 characters."},
		{"name", strings.Repeat("x", 61), "The name must have at most 60 characters."},
		{"name", "Web\u202esite", "The name must not contain U+202E (changes the direction of the text), its character 4."},
		{"useCase", "\r\n", "Tell us what you will use the data for."},
		{"useCase", strings.Repeat("x", 501), "The use case must have at most 500 characters."},
		{"useCase", "instead of oda_live_x", "The use case must not contain an API key."},
		{"terms", "no", "Accept the terms of use to get a key."},
		{"termsVersion", "1", "The terms of use have changed. Read and accept version 2."},
	} {
		p := b.Post("/account/keys/new", valid("termsVersion", "2", c.field, c.value)...).
			Shows(http.StatusUnprocessableEntity, "There is a problem", c.message)
		require.Equal(t, 1, strings.Count(p.Body, `<li><a href="#`), "one problem")
	}
	b.Post("/account/keys/new", "name", "<b>Board</b>", "useCase", "<b>x</b>").
		Shows(http.StatusUnprocessableEntity, "<b>x</b>")
	require.Empty(t, listed(s, "?all=true"))
}

func TestAKeyFromItsRequestToItsEnd(t *testing.T) {
	s, b := person(t)
	s.TakePosted(t)
	b.Get("/account/keys").Shows(http.StatusOK, "0 of 5 keys in use", "You have no active keys")
	b.Get("/account/keys/new").Shows(http.StatusOK, "Request a key", "Use case")
	b.Post("/account/keys/new", valid("name", " Website ", "useCase", "a job board\r\nfor Ontario")...).
		Leads("/account/keys")
	b.Get("/account/keys").Shows(http.StatusOK, "Your request was sent", "Website", "Waiting for approval",
		"1 of 5 keys in use")
	asked := listed(s, "")
	id := asked[0].ID
	require.Equal(t, []api.KeyRequest{{
		ID: id, Account: b.Account, Name: "Website", UseCase: "a job board for Ontario", State: "asked",
		AskedAt: testkit.Start,
	}}, asked)
	collect := "/account/keys/requests/" + id + "/collect"
	b.Get(collect).Shows(http.StatusBadRequest)
	b.Post(collect).Shows(http.StatusBadRequest, "waiting for approval")

	s.Advance(time.Minute)
	decided := servicetest.Read[api.KeyRequest](s.Decide(id, "approve", ""))
	require.Equal(t, []any{"approved", testkit.Actor, s.Now()}, []any{decided.State, decided.DecidedBy, *decided.DecidedAt})
	require.Equal(t, decided, servicetest.Read[api.KeyRequest](s.Decide(id, "approve", "")),
		"repeating the decision changes nothing")
	require.Empty(t, listed(s, ""))
	require.Equal(t, []string{"ada@example.org: Your key is ready"}, s.TakeSubjects(t))

	b.Get("/account/keys").Shows(http.StatusOK, "Approved", "Get the key")
	b.Get(collect).Shows(http.StatusOK, "once")
	shown := b.Post(collect)
	require.Equal(t, "no-store", shown.Header.Get("Cache-Control"))
	key := testkit.NewKey(shown)
	shown.Shows(http.StatusOK, "curl -H 'Authorization: Bearer "+key+"' 'https://api.example/api/v1/opportunities?country=CA'")
	p := s.Principal(key)
	require.Equal(t, s.Now().Add(keys.MaxLife), p.ExpiresAt)
	b.Post(collect).Shows(http.StatusBadRequest, "already collected", "rotate it")
	s.Decide(id, "decline", `{"reason":"too late"}`).
		RequireError(problem.InvalidParameter, "approved by ada on 20 November 2026, 10:01 UTC", "revoke the key")
	require.Equal(t, "collected", servicetest.Read[api.KeyRequest](s.Decide(id, "approve", "")).State,
		"the same decision, after its key was collected")

	page := "/account/keys/" + p.Key
	b.Get("/account/keys").Shows(http.StatusOK, "oda_live_…"+key[len(key)-4:], "Active", "never", "1 of 5 keys in use")
	b.Post(page+"/name", "name", strings.Repeat("x", 61)).
		Shows(http.StatusUnprocessableEntity, "The name must have at most 60 characters.", "Website")
	b.Post(page+"/name", "name", "Board <3").Leads(page)
	b.Get(page).Shows(http.StatusOK, "Board <3", "a job board for Ontario", "was renamed")

	b.Get(page+"/rotate").
		Shows(http.StatusOK, "Rotate Board <3?", "20 November 2027, 10:01 UTC", "21 November 2026, 10:01 UTC")
	next := s.Principal(testkit.NewKey(b.Post(page + "/rotate")))
	require.Greater(t, s.Principal(key).Epoch, p.Epoch, "gateways that cached the longer life must notice")
	nextPage := "/account/keys/" + next.Key
	for _, page := range []string{"/account/keys", nextPage} {
		require.NotContains(t, b.Get(page).Shows(http.StatusOK, "Revoke").Body, `/rotate"`, "the old key still works")
	}
	b.Get("/account/keys").Shows(http.StatusOK, "Replaced", "1 of 5 keys in use")
	b.Get(page+"/rotate").Shows(http.StatusBadRequest, "already rotated")
	b.Post(nextPage+"/rotate").Shows(http.StatusBadRequest, "Revoke the old one first")

	b.Get(nextPage+"/revoke").Shows(http.StatusOK, "cannot be undone")
	b.Post(nextPage + "/revoke").Leads("/account/keys")
	b.Get("/account/keys").Shows(http.StatusOK, "Board <3 was revoked", "Ended keys (1)")
	require.Equal(t, []string{"ada@example.org: Your key Board <3 was rotated",
		"ada@example.org: Your key Board <3 was revoked"}, s.TakeSubjects(t))
	require.Nil(t, s.Principal(key).RevokedAt, "the other works until the end of its grace period")
	s.Do(http.MethodPost, "/operator/v1/keys/"+p.Key+"/revoke", `{"leaked":true}`)
	require.NotNil(t, s.Principal(key).RevokedAt)
	leaked := s.TakeMails(t)[0]
	require.Equal(t, "Your key Board <3 has leaked and was revoked", leaked.Subject)
	require.Contains(t, leaked.Text, "Key: Board <3 (oda_live_…"+key[len(key)-4:])
	s.Issue(b.Account, "expiresIn", "1h")
	s.Advance(time.Hour)
	b.SignIn()
	b.Get("/account/keys").Shows(http.StatusOK, "0 of 5 keys in use", "Expired", "Ended keys (3)")
}

func TestRequestsAreDeclinedWithAReasonOrWithdrawn(t *testing.T) {
	s, b := person(t)
	s.TakePosted(t)
	first, second := b.RequestKey("First", "1"), b.RequestKey("Second", "1")
	s.Decide(first, "decline", "").RequireError(problem.InvalidParameter, "reason")
	for _, reason := range []string{"say who reads it", "another reason"} { // the decision stays as it was made
		declined := servicetest.Read[api.KeyRequest](s.Decide(first, "decline", map[string]string{"reason": reason}))
		require.Equal(t, "say who reads it", declined.Reason)
	}
	b.Get("/account/keys").Shows(http.StatusOK, "Declined", "say who reads it")
	for _, act := range []string{"/collect", "/withdraw"} {
		b.Post("/account/keys/requests/"+first+act).Shows(http.StatusBadRequest, "This request was declined.", "Your keys")
	}
	s.Decide(first, "approve", "").RequireError(problem.InvalidParameter, "declined by ada on 20 November 2026, 10:00 UTC")
	s.Decide(second, "approve", "")
	s.Decide(second, "decline", `{"reason":"a second thought"}`).RequireError(problem.InvalidParameter, "approved by ada")
	third := b.RequestKey("Third", "1")
	for range 2 {
		b.Post("/account/keys/requests/" + third + "/withdraw").Leads("/account/keys")
	}
	s.Decide(third, "approve", "").RequireError(problem.InvalidParameter, "withdrawn")
	require.Equal(t, []string{"ada@example.org: Your request for a key was declined",
		"ada@example.org: Your key is ready"}, s.TakeSubjects(t))

	page := servicetest.Read[api.KeyRequestList](s.Do(http.MethodGet, "/operator/v1/keys/requests?all=true&limit=2", ""))
	require.Equal(t, []any{2, second}, []any{len(page.Requests), page.Next})
	require.Equal(t, third, listed(s, "?all=true&after="+page.Next)[0].ID)

	var log []string
	for _, e := range s.AuditEntries("?action=key.") {
		log = append(log, e.Action+" "+e.Subject+" "+string(e.Detail))
	}
	own := ` {"account":"` + b.Account + `"}`
	require.Equal(t, []string{
		"key.withdraw " + third + own,
		"key.request " + third + ` {"account":"` + b.Account + `","name":"Third","test":false,"useCase":"a job board"}`,
		"key.approve " + second + own,
		"key.decline " + first + ` {"account":"` + b.Account + `","reason":"say who reads it"}`,
	}, log[:4])
}

func TestKeyIsApprovedAutomaticallyWhereThatIsSet(t *testing.T) {
	s, b := person(t, func(c *authquota.Config) { c.AutoApprove = true })
	s.TakePosted(t)
	p := b.Post("/account/keys/new", valid()...)
	r := listed(s, "?all=true")[0]
	p.Leads("/account/keys/requests/" + r.ID + "/collect")
	require.Equal(t, "auto-approve", r.DecidedBy)
	b.Get("/account/security").Shows(http.StatusOK, "Key request approved", "automatic")
	testkit.NewKey(b.Post("/account/keys/requests/" + r.ID + "/collect"))
	require.Empty(t, s.TakePosted(t), "the person sees it on the page")
}

func TestOneTestKeyIsOfferedOnTheBaseTier(t *testing.T) {
	const kinds = `name="kind"`
	s, b := person(t)
	require.NotContains(t, b.Get("/account/keys/new").Body, kinds, "switched off")
	b.Post("/account/keys/new", valid("kind", "test")...).
		Shows(http.StatusUnprocessableEntity, "cannot get another test key")
	require.Empty(t, listed(s, "?all=true"))

	s, b = person(t, func(c *authquota.Config) { c.TestKeys = true })
	b.Get("/account/keys/new").
		Shows(http.StatusOK, "Test key: you get it now", "Live key: for what you run for others",
			"An operator decides first", "ask the operator").Markup(`value="test" checked`)
	s.Grant(b.Account, api.Developer)
	require.NotContains(t, b.Get("/account/keys/new").Body, kinds)
	s.Grant(b.Account, api.BaseTier)
	b.Post("/account/keys/new", valid("kind", "live")...).Leads("/account/keys")
	b.Post("/account/keys/new", valid("kind", "test")...)
	r := listed(s, "?all=true")[1].ID
	b.Post("/account/keys/requests/"+r+"/collect", "terms", "accepted", "termsVersion", "1").
		Shows(http.StatusOK, "Bearer oda_test_")
	require.NotContains(t, b.Get("/account/keys/new").Body, kinds)
	b.Post("/account/keys/new", valid("kind", "test")...).
		Shows(http.StatusUnprocessableEntity, "cannot get another test key")
}

func TestNetworkGetsTwentyTestKeysADayWithoutAnOperator(t *testing.T) {
	s, b := person(t, func(c *authquota.Config) { c.TestKeys = true })
	b.Address = "198.51.100.7"
	states := func(n int) (states []string) {
		for range n {
			b.Post("/account/keys/new", valid("kind", "test")...)
			all := listed(s, "?all=true")
			r := all[len(all)-1]
			states = append(states, r.State)
			require.NoError(t, s.Keys.Withdraw(t.Context(), b.Account, r.ID))
			s.Advance(5 * time.Minute) // the account has its own budget
		}
		return states
	}
	require.NotContains(t, states(20), "asked")
	b.Address = "198.51.100.8"
	require.Equal(t, []string{"asked"}, states(1), "the same network")
	b.Address = "203.0.113.1"
	require.Equal(t, []string{"approved"}, states(1))
	b.Address = "198.51.100.7"
	s.Advance(24 * time.Hour)
	b.SignIn()
	require.Equal(t, []string{"approved"}, states(1))
}

func TestKeyList(t *testing.T) {
	s, b := person(t)
	_, replaced := s.Obtain(b, "Replaced one", "1")
	testkit.NewKey(b.Post("/account/keys/" + replaced + "/rotate"))
	s.Issue(b.Account, "expiresIn", "696h")
	key := s.Issue(b.Account)
	b.RequestKey("Requested", "1")
	for outcome, n := range map[api.CallOutcome]int{
		api.CallServed: 2, api.CallNotFound: 1, api.CallMinuteLimitReached: 20, api.CallSubscriptionRequired: 2,
		api.CallFailed: 1,
	} {
		s.Count(key.ID, "2026-11-20", outcome, n)
	}
	p := b.Get("/account/keys").
		Shows(http.StatusOK, "4 of 5 keys in use", "Requested", "Waiting for approval", "Replaced", "Soon", "Unnamed key",
			"Requests today", "26 sent, 3 charged")
	require.Greater(t, strings.LastIndex(p.Text(), "Replaced one"), strings.Index(p.Text(), "Unnamed key"),
		"keys in their grace period come last")
	b.Get("/account/keys/"+key.ID).Shows(http.StatusOK, "26 sent, 3 charged to your daily quota")
	b.RequestKey("Another", "1")
	b.Post("/account/keys/new", valid()...).Shows(http.StatusUnprocessableEntity, "5 active keys and pending requests")
}

// The page stays short for an account with many ended keys.
func TestKeyListShowsTheLatestOfManyEndedKeys(t *testing.T) {
	s, b := person(t)
	for i := range 60 {
		ended(t, s, b, fmt.Sprintf("Past %d.", i))
	}
	b.Get("/account/keys").Shows(http.StatusOK, "Ended keys (50 of 60)", "And 10 older ones", "Past 59.", "Past 10.").
		Lacks("Past 9.")
}

func TestKeysOfOthersAreNotFound(t *testing.T) {
	s, ada := person(t)
	bob := s.SignUp("bob@example.org")
	_, hers := s.Obtain(ada, "Hers", "1")
	r := ada.RequestKey("Hers too", "1")
	s.Decide(r, "approve", "")
	for _, id := range []string{hers, "x", "key_0199a7a0000070008000000000000000", r} {
		bob.Get("/account/keys/" + id).Shows(http.StatusNotFound)
		bob.Post("/account/keys/"+id+"/name", "name", "mine").Shows(http.StatusNotFound)
		for _, act := range []string{"/rotate", "/revoke"} {
			bob.Get("/account/keys/" + id + act).Shows(http.StatusNotFound)
			bob.Post("/account/keys/" + id + act).Shows(http.StatusNotFound)
		}
		bob.Get("/account/keys/requests/" + id + "/collect").Shows(http.StatusNotFound)
		bob.Post("/account/keys/requests/"+id+"/collect", "terms", "accepted", "termsVersion", "1").Shows(http.StatusNotFound)
		bob.Post("/account/keys/requests/" + id + "/withdraw").Shows(http.StatusNotFound)
	}
	require.Len(t, s.ListKeys(""), 1)
	require.Equal(t, "active", s.ListKeys("")[0].Status)
	require.Equal(t, "Hers", s.ListKeys("")[0].Name)
	require.Equal(t, "approved", listed(s, "?all=true")[1].State)
	bob.Get("/account/keys").Shows(http.StatusOK, "0 of 5 keys in use")
}

func TestPagesAndMailsNameTheOperatorsAddress(t *testing.T) {
	for contact, address := range map[string]string{
		"help@api.example":                 "mailto:help@api.example",
		"https://api.example/help?a=1&b=2": "https://api.example/help?a=1&amp;b=2",
	} {
		s, b := person(t, func(c *authquota.Config) { c.Contact = contact })
		s.TakePosted(t)
		s.Suspend(b.Account, "unpaid")
		require.Contains(t, b.Get("/account").Body, `the operator of the service (<a href="`+address+`">`)
		require.Contains(t, strings.Join(strings.Fields(s.TakeMails(t)[0].Text), " "),
			"the operator of the service ("+contact+")")
	}
}

func TestASuspendedAccountSeesItsKeysAndRevokesThem(t *testing.T) {
	s, b := person(t)
	_, id := s.Obtain(b, "Mine", "1")
	r := b.RequestKey("Another", "1")
	s.Decide(r, "approve", "")
	s.Suspend(b.Account, "unpaid")
	b.Get("/account/keys").Shows(http.StatusOK, "This account is suspended", "Mine").Lacks("/rotate")
	b.Post("/account/keys/new", valid()...).Shows(http.StatusUnprocessableEntity, "suspended")
	b.Post("/account/keys/requests/"+r+"/collect").Shows(http.StatusBadRequest, "suspended")
	b.Post("/account/keys/"+id+"/rotate").Shows(http.StatusBadRequest, "suspended")
	b.Post("/account/keys/connect", "key", s.Issue("").Key).Shows(http.StatusUnprocessableEntity)
	b.Post("/account/keys/" + id + "/revoke").Leads("/account/keys")
	require.Equal(t, "revoked", s.ListKeys("")[0].Status)
}

// A new key cannot be shown again, so it is shown even if its change takes effect later.
func TestChangesThatTakeEffectLaterAreSaid(t *testing.T) {
	s, b := person(t)
	key := s.Issue(b.Account)
	s.Redis.Stop()
	b.Post("/account/keys/"+key.ID+"/rotate").Shows(http.StatusOK, "Copy your key now", "takes effect shortly")
	b.Post("/account/keys/" + key.ID + "/revoke").Leads("/account/keys")
	b.Get("/account/keys").Shows(http.StatusOK, "was revoked", "takes effect shortly")
}

func TestConnectingAKey(t *testing.T) {
	s, b := person(t)
	for _, given := range []string{"", "  ", strings.Repeat("x", 501)} {
		b.Post("/account/keys/connect", "key", given).Shows(http.StatusUnprocessableEntity, "Paste the whole key")
	}
	older := s.Issue("")
	s.Issue(older.Account)
	s.Issue(older.Account)
	b.Post("/account/keys/connect", "key", " "+older.Key+" ").Leads("/account/keys")
	b.Get("/account/keys").Shows(http.StatusOK,
		"The key and 2 others of its account are connected. Requests sent with them today count toward your daily quota.")
	require.Equal(t, b.Account, s.Principal(older.Key).Account)
	single := s.Issue("")
	b.Post("/account/keys/connect", "key", single.Key).Leads("/account/keys")
	b.Get("/account/keys").Shows(http.StatusOK,
		"The key is connected. Requests sent with it today count toward your daily quota.")

	_, hers := s.Obtain(s.SignUp("grace@example.org"), "Hers", "1")
	require.NotEmpty(t, hers)
	for given, message := range map[string]string{"older-key": "This key is unknown",
		s.Issue(s.SignUp("eve@example.org").Account).Key: "another person's account"} {
		p := b.Post("/account/keys/connect", "key", given).Shows(http.StatusUnprocessableEntity, message)
		require.NotContains(t, p.Body, given, "input is not repeated")
	}
	var p testkit.Page
	for range 10 {
		p = b.Post("/account/keys/connect", "key", "older-key")
	}
	p.Shows(http.StatusTooManyRequests, "Too many attempts")
	require.NotEmpty(t, p.Header.Get("Retry-After"))
}

func acceptedTerms(s *sitekit.Site, accountID string) *api.AcceptedTerms {
	return s.Account(accountID).Person.Terms
}

// A key needs the acceptance of the terms of use, once for each version. The account stores which
// version was accepted and when.
func TestAKeyNeedsTheTermsOfUse(t *testing.T) {
	s, b := person(t)
	require.Nil(t, acceptedTerms(s, b.Account))
	b.Get("/account/security").Shows(http.StatusOK, "You have not accepted the terms of use yet.")
	page := b.Get("/account/keys/new").Shows(http.StatusOK, "I accept the terms of use, version 1", api.UsageRight).
		Markup(`href="/terms"`)
	require.NotContains(t, page.Body, " checked", "not accepted in advance")
	for _, reply := range [][]string{nil, {"termsVersion", "1"}, {"terms", "accepted"},
		{"terms", "no", "termsVersion", "1"}} {
		b.Post("/account/keys/new", append([]string{"name", "Mine", "useCase", "a board"}, reply...)...).
			Shows(http.StatusUnprocessableEntity, "There is a problem", "Accept the terms of use to get a key.", "a board")
	}
	require.Empty(t, listed(s, "?all=true"))
	require.Nil(t, acceptedTerms(s, b.Account), "a rejected form accepts nothing")

	id := b.RequestKey("Mine", "1")
	require.Equal(t, &api.AcceptedTerms{Version: "1", AcceptedAt: testkit.Start}, acceptedTerms(s, b.Account))
	require.JSONEq(t, `{"version":"1"}`, string(s.AuditEntries("?action=terms.accept&actor=" + b.Account)[0].Detail))
	b.Get("/account/security").
		Shows(http.StatusOK, "You accepted version 1", "20 November 2026, 10:00 UTC", "Terms of use accepted")

	s.Advance(time.Minute)
	s.Decide(id, "approve", "")
	collect := "/account/keys/requests/" + id + "/collect"
	page = b.Get(collect).Shows(http.StatusOK, "terms of use", "You accepted this version on 20 November 2026, 10:00 UTC")
	require.NotContains(t, page.Body, "checkbox", "asked once for each version")
	testkit.NewKey(b.Post(collect))
	b.Post("/account/keys/new", "name", "Second", "useCase", "a board").Leads("/account/keys")
	require.Equal(t, testkit.Start, acceptedTerms(s, b.Account).AcceptedAt)
}

// A new version needs acceptance again, also for requests made before it.
func TestChangedTermsAskAgain(t *testing.T) {
	before, b := person(t)
	id := b.RequestKey("Mine", "1")
	before.Decide(id, "approve", "")

	s := sitekit.On(t, before.DB, func(c *authquota.Config) { c.TermsVersion = "2" })
	b = s.Visit(b)
	s.Advance(time.Minute)
	b.Get("/account/security").Shows(http.StatusOK, "You accepted version 1", "Version 2 is in effect now.")
	collect := "/account/keys/requests/" + id + "/collect"
	b.Get(collect).Shows(http.StatusOK, "You accepted version 1", "The terms have changed since then.",
		"I accept the terms of use, version 2.")
	b.Post(collect).Shows(http.StatusUnprocessableEntity, "Accept the terms of use to get a key.", "Mine")
	b.Post(collect, "terms", "accepted", "termsVersion", "1").
		Shows(http.StatusUnprocessableEntity, "The terms of use have changed. Read and accept version 2.")
	require.Empty(t, s.ListKeys(""))
	testkit.NewKey(b.Post(collect, "terms", "accepted", "termsVersion", "2"))
	require.Equal(t, &api.AcceptedTerms{Version: "2", AcceptedAt: testkit.Start.Add(time.Minute)},
		acceptedTerms(s, b.Account))

	b.Post("/account/security/close", "email", "ada@example.org").Leads("/account/sign-in")
	require.Equal(t, "2", acceptedTerms(s, b.Account).Version, "kept when the account is closed")
}

// Keys issued by an operator need no acceptance.
func TestAKeyOfAnOperatorNeedsNoAcceptance(t *testing.T) {
	s, b := person(t)
	b.Post("/account/keys/connect", "key", s.Issue("").Key).Leads("/account/keys")
	testkit.NewKey(b.Post("/account/keys/" + s.ListKeys("")[0].ID + "/rotate"))
	require.Nil(t, acceptedTerms(s, b.Account))
	require.NotContains(t, b.Get("/account/keys").Text(), "terms of use (version")
	require.Contains(t, s.Do(http.MethodGet, "/operator/v1/accounts/"+b.Account, "").Body, `"terms":null`)
}

// Acts that issue, mail or write share one budget. Revoking is not among them.
func TestActsOfAnAccountShareABudget(t *testing.T) {
	s, b := person(t)
	_, id := s.Obtain(b, "One", "1")
	renewed := 0
	for renewed < 100 && b.Post("/account/recovery-codes").Status == http.StatusOK {
		renewed++
	}
	require.Equal(t, people.ActRule.Free+1-2, renewed, "the request and the collection of the key count too")
	for path, fields := range map[string][]string{
		"/account/recovery-codes": nil, "/account/keys/new": valid(), "/account/keys/" + id + "/name": {"name", "Two"},
		"/account/keys/" + id + "/rotate": nil,
	} {
		p := b.Post(path, fields...).Shows(http.StatusTooManyRequests, "too many changes")
		require.Equal(t, "900", p.Header.Get("Retry-After"), path)
	}
	b.Post("/account/keys/" + id + "/revoke").Leads("/account/keys")
	s.Advance(people.ActRule.First)
	b.Post("/account/keys/new", valid()...).Leads("/account/keys")
}

// ended returns the ID of a new key with a name that was revoked: only five keys may be active.
func ended(t *testing.T, s *sitekit.Site, b *testkit.Person, name string) string {
	t.Helper()
	key := s.Issue(b.Account)
	require.NoError(t, s.Keys.Rename(t.Context(), b.Account, key.ID, name))
	storetest.Must(s.Keys.Revoke(t.Context(), testkit.Actor, key.ID, false))(t)
	return key.ID
}
