package authquota_test

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/site/sitetest"
)

var (
	requestIDs = regexp.MustCompile(`req_[0-9a-f]{32}`)
	secrets    = regexp.MustCompile(`oda_(live|test)_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}`)
)

func approving(c *authquota.Config) { c.AutoApprove = true }

// requestKey submits a key request and accepts the terms of use.
func (b *browser) requestKey(fields ...string) sitetest.Page {
	return b.Post("/account/keys/new", append(fields, "terms", "accepted", "termsVersion", api.TermsVersion)...)
}

// ask requests a key and returns the ID of the request.
func (b *browser) ask(name string) string {
	t := b.svc.t
	t.Helper()
	before := b.requests()
	p := b.requestKey("name", name, "useCase", "a job board for Ontario")
	require.Equal(t, http.StatusSeeOther, p.Status, "%s", p.Body)
	for _, r := range b.requests() {
		if !strings.Contains(strings.Join(before, " "), r) {
			return r
		}
	}
	t.Fatal("the request is not on the page of keys")
	return ""
}

func (b *browser) requests() []string { return unique(requestIDs, b.Get("/account/keys").Body) }

func unique(of *regexp.Regexp, text string) (found []string) {
	seen := map[string]bool{}
	for _, id := range of.FindAllString(text, -1) {
		if !seen[id] {
			found, seen[id] = append(found, id), true
		}
	}
	return found
}

// secret returns the key shown on a page, and its ID.
func (b *browser) secret(p sitetest.Page) (key, id string) {
	t := b.svc.t
	t.Helper()
	require.Equal(t, http.StatusOK, p.Status, "%s", p.Body)
	found := unique(secrets, p.Body)
	require.Len(t, found, 1)
	b.svc.keys = append(b.svc.keys, found[0])
	return found[0], b.svc.principal(found[0]).Key
}

// obtain requests a key, has it approved and collects it.
func (b *browser) obtain(name string) (key, id string) {
	b.svc.t.Helper()
	r := b.ask(name)
	b.svc.decide(r, "approve", nil)
	return b.secret(b.Post("/account/keys/requests/" + r + "/collect"))
}

func (s *service) decide(request, act string, body any) servicetest.Response {
	s.t.Helper()
	return s.do(http.MethodPost, "/operator/v1/keys/requests/"+request+"/"+act, body)
}

func (s *service) listRequests(query string) []api.KeyRequest {
	s.t.Helper()
	return servicetest.Read[api.KeyRequestList](s.do(http.MethodGet, "/operator/v1/keys/requests"+query, nil)).Requests
}

// sent returns the subjects of the n mails sent.
func (s *stores) sent(t *testing.T, n int) (subjects []string) {
	t.Helper()
	storetest.Eventually(t, "mails", func() bool { return len(s.mails(t)) == n && s.waiting(t) == 0 })
	for _, m := range s.mails(t) {
		subjects = append(subjects, m.subject)
	}
	return subjects
}

func TestAKeyFromItsRequestToItsEnd(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, clock := s.startAt(t, begin)
		b := svc.browser()
		b.signUp("ada@example.org")
		b.Get("/account/keys").Shows(http.StatusOK, "0 of 5 keys in use", "You have no active keys")
		b.Get("/account/keys/new").Shows(http.StatusOK, "Request a key", "Use case")
		b.requestKey("name", " ", "useCase", "<b>a board</b>").Shows(http.StatusUnprocessableEntity,
			"There is a problem", "Enter a name of at most 60 characters.", "<b>a board</b>")
		b.requestKey("name", " Website ", "useCase", "a job board\r\nfor Ontario").Leads("/account/keys")
		b.Get("/account/keys").Shows(http.StatusOK, "Your request was sent", "Website", "Waiting for approval", "1 of 5 keys in use")
		asked := svc.listRequests("")
		require.Equal(t, []api.KeyRequest{{
			ID: asked[0].ID, Account: b.Account, Name: "Website", UseCase: "a job board for Ontario", State: "asked", AskedAt: begin,
		}}, asked)
		id := asked[0].ID
		collect := "/account/keys/requests/" + id + "/collect"
		b.Get(collect).Shows(http.StatusBadRequest)
		b.Post(collect).Shows(http.StatusBadRequest, "waiting for approval")

		clock.Advance(time.Minute)
		decided := servicetest.Read[api.KeyRequest](svc.decide(id, "approve", nil))
		require.Equal(t, "approved", decided.State)
		require.Equal(t, actor, decided.DecidedBy)
		require.Equal(t, begin.Add(time.Minute), *decided.DecidedAt)
		require.Equal(t, decided, servicetest.Read[api.KeyRequest](svc.decide(id, "approve", nil)), "twice is once")
		require.Empty(t, svc.listRequests(""))
		require.Equal(t, []api.KeyRequest{decided}, svc.listRequests("?all=true"))
		require.ElementsMatch(t, []string{"Your key is ready"}, s.sent(t, 1))
		require.Contains(t, s.mails(t)[0].plain, "https://api.example/account/keys")

		b.Get("/account/keys").Shows(http.StatusOK, "Approved", "Get the key")
		b.Get(collect).Shows(http.StatusOK, "once")
		shown := b.Post(collect).Shows(http.StatusOK, "Copy your key now")
		require.Equal(t, "no-store", shown.Header.Get("Cache-Control"))
		key, keyID := b.secret(shown)
		require.Contains(t, shown.Text(), "curl -H 'Authorization: Bearer "+key+"' 'https://api.example/api/v1/opportunities?country=CA'")
		p := svc.principal(key)
		require.Equal(t, b.Account, p.Account)
		require.Equal(t, begin.Add(time.Minute+365*24*time.Hour), p.ExpiresAt)
		b.Post(collect).Shows(http.StatusBadRequest, "already collected", "rotate it")
		svc.decide(id, "decline", `{"reason":"too late"}`).RequireError(problem.InvalidParameter,
			"approved by ada on 20 November 2026, 10:01 UTC", "revoke the key")
		require.Equal(t, "collected", servicetest.Read[api.KeyRequest](svc.decide(id, "approve", nil)).State, "the same decision, after its key was collected")

		b.Get("/account/keys").Shows(http.StatusOK, "Website", "oda_live_…"+key[len(key)-4:], "Active", "never", "1 of 5 keys in use")
		b.Post("/account/keys/"+keyID+"/name", "name", "Board <3").Leads("/account/keys/" + keyID)
		b.Get("/account/keys/"+keyID).Shows(http.StatusOK, "Board <3", "a job board for Ontario", "was renamed")

		clock.Advance(time.Hour)
		b.SignIn()
		b.Get("/account/keys/"+keyID+"/rotate").Shows(http.StatusOK, "21 November 2026, 11:01 UTC")
		next, nextID := b.secret(b.Post("/account/keys/" + keyID + "/rotate"))
		require.Equal(t, clock.Now().Add(365*24*time.Hour), svc.principal(next).ExpiresAt, "a full life of its own")
		after := svc.principal(key)
		require.Equal(t, begin.Add(25*time.Hour+time.Minute), after.ExpiresAt)
		require.Greater(t, after.Epoch, p.Epoch, "gateways that keep the longer life must notice")
		b.Get("/account/keys").Shows(http.StatusOK, "Replaced", "1 of 5 keys in use")
		b.Get("/account/keys/"+keyID+"/rotate").Shows(http.StatusBadRequest, "already rotated")
		b.Post("/account/keys/"+keyID+"/rotate").Shows(http.StatusBadRequest, "already rotated")
		require.Equal(t, nextID, svc.listKeys("?account=" + b.Account)[0].Successor)
		b.Post("/account/keys/"+nextID+"/rotate").Shows(http.StatusBadRequest, "Revoke the old one first")
		require.Len(t, svc.listKeys("?account="+b.Account), 2, "no more keys than places, by rotating again and again")

		epoch := svc.principal(next).Epoch
		b.Get("/account/keys/"+nextID+"/revoke").Shows(http.StatusOK, "cannot be undone")
		b.Post("/account/keys/" + nextID + "/revoke").Leads("/account/keys")
		b.Get("/account/keys").Shows(http.StatusOK, "Board <3 was revoked", "Ended keys (1)")
		gone := svc.principal(next)
		require.NotNil(t, gone.RevokedAt)
		require.Greater(t, gone.Epoch, epoch)
		require.Nil(t, svc.principal(key).RevokedAt, "the other goes on to the end of its grace")
		clock.Advance(24 * time.Hour)
		b.SignIn()
		b.Get("/account/keys").Shows(http.StatusOK, "0 of 5 keys in use", "Expired", "Ended keys (2)")
		require.ElementsMatch(t, []string{"Your key is ready", "Your key Board <3 was rotated", "Your key Board <3 was revoked"}, s.sent(t, 3))
	})
}

func TestRequestsAreDeclinedWithAReasonOrWithdrawn(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startAt(t, begin)
		b := svc.browser()
		b.signUp("ada@example.org")
		first, second := b.ask("First"), b.ask("Second")
		svc.decide(first, "decline", nil).RequireError(problem.InvalidParameter, "reason")
		require.Equal(t, "say who reads it", servicetest.Read[api.KeyRequest](svc.decide(first, "decline", `{"reason":"say who reads it"}`)).Reason)
		b.Get("/account/keys").Shows(http.StatusOK, "Declined", "say who reads it")
		b.Post("/account/keys/requests/"+first+"/collect").Shows(http.StatusBadRequest, "This request was declined.", "Your keys")
		b.Post("/account/keys/requests/"+first+"/withdraw").Shows(http.StatusBadRequest, "This request was declined.")
		svc.decide(first, "approve", nil).RequireError(problem.InvalidParameter, "declined by ada on 20 November 2026, 10:00 UTC")
		again := servicetest.Read[api.KeyRequest](svc.decide(first, "decline", `{"reason":"another reason"}`))
		require.Equal(t, "say who reads it", again.Reason, "the decision stays as it was made")
		b.Post("/account/keys/requests/" + first + "/collect").Shows(http.StatusBadRequest)
		b.Post("/account/keys/requests/" + first + "/withdraw").Shows(http.StatusBadRequest)

		svc.decide(second, "approve", nil)
		svc.decide(second, "decline", `{"reason":"a second thought"}`).RequireError(problem.InvalidParameter, "approved by ada")
		third := b.ask("Third")
		b.Post("/account/keys/requests/" + third + "/withdraw").Leads("/account/keys")
		b.Post("/account/keys/requests/" + third + "/withdraw").Leads("/account/keys")
		svc.decide(third, "approve", nil).RequireError(problem.InvalidParameter, "withdrawn")
		require.ElementsMatch(t, []string{"Your request for a key was declined", "Your key is ready"}, s.sent(t, 2))

		page := servicetest.Read[api.KeyRequestList](svc.do(http.MethodGet, "/operator/v1/keys/requests?all=true&limit=2", nil))
		require.Len(t, page.Requests, 2)
		require.Equal(t, second, page.Next)
		require.Equal(t, third, svc.listRequests("?all=true&after=" + page.Next)[0].ID)
		svc.do(http.MethodGet, "/operator/v1/keys/requests?after=x", nil).RequireError(problem.InvalidParameter, "after")
		for _, id := range []string{"x", "%00", "req_0199a7a0000070008000000000000000", b.Account} {
			svc.decide(id, "approve", nil).RequireError(problem.NotFound)
		}
		svc.do(http.MethodGet, "/operator/v1/keys/requests?all=maybe", nil).RequireError(problem.InvalidParameter, "all")
		require.Empty(t, svc.listKeys(""))

		var log []string
		for _, e := range svc.audit("?action=key.").Entries {
			log = append(log, e.Actor+" "+e.Action+" "+e.Subject+" "+string(e.Detail))
		}
		slices.Reverse(log)
		own := ` {"account":"` + b.Account + `"}`
		require.Equal(t, []string{
			b.Account + " key.request " + first + ` {"account":"` + b.Account + `","name":"First","test":false,"useCase":"a job board for Ontario"}`,
			b.Account + " key.request " + second + ` {"account":"` + b.Account + `","name":"Second","test":false,"useCase":"a job board for Ontario"}`,
			"ada key.decline " + first + ` {"account":"` + b.Account + `","reason":"say who reads it"}`,
			"ada key.approve " + second + own,
			b.Account + " key.request " + third + ` {"account":"` + b.Account + `","name":"Third","test":false,"useCase":"a job board for Ontario"}`,
			b.Account + " key.withdraw " + third + own,
		}, log)
	})
}

func TestKeysAreApprovedAtOnceWhereThatIsSet(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startAt(t, begin, approving)
		b := svc.browser()
		b.signUp("ada@example.org")
		p := b.requestKey("name", "Mine", "useCase", "trying")
		r := svc.listRequests("?all=true")[0]
		p.Leads("/account/keys/requests/" + r.ID + "/collect")
		require.Equal(t, "auto-approve", r.DecidedBy)
		b.secret(b.Post("/account/keys/requests/" + r.ID + "/collect"))
		require.Empty(t, s.mails(t), "whoever asked sees it")
	})
}

func TestKeysOfOthersAreNotFound(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startAt(t, begin)
		ada, bob := svc.browser(), svc.browser()
		ada.signUp("ada@example.org")
		bob.signUp("bob@example.org")
		_, id := ada.obtain("Hers")
		r := ada.ask("Hers too")
		svc.decide(r, "approve", nil)
		for _, id := range []string{id, "x", "key_0199a7a0000070008000000000000000", r} {
			bob.Get("/account/keys/" + id).Shows(http.StatusNotFound)
			bob.Post("/account/keys/"+id+"/name", "name", "mine").Shows(http.StatusNotFound)
			for _, act := range []string{"/rotate", "/revoke"} {
				bob.Get("/account/keys/" + id + act).Shows(http.StatusNotFound)
				bob.Post("/account/keys/" + id + act).Shows(http.StatusNotFound)
			}
			bob.Get("/account/keys/requests/" + id + "/collect").Shows(http.StatusNotFound)
			bob.Post("/account/keys/requests/" + id + "/collect").Shows(http.StatusNotFound)
			bob.Post("/account/keys/requests/" + id + "/withdraw").Shows(http.StatusNotFound)
		}
		keys := svc.listKeys("")
		require.Len(t, keys, 1)
		require.Equal(t, "active", keys[0].Status)
		require.Equal(t, "Hers", keys[0].Name)
		require.Equal(t, "approved", svc.listRequests("?all=true")[1].State)
		bob.Get("/account/keys").Shows(http.StatusOK, "0 of 5 keys in use")
	})
}

func TestASuspendedAccountSeesItsKeysAndRevokesThem(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startAt(t, begin)
		b := svc.browser()
		b.signUp("ada@example.org")
		_, id := b.obtain("Mine")
		r := b.ask("Another")
		svc.decide(r, "approve", nil)
		servicetest.Read[listedAccount](svc.change(b.Account, "suspend", `{"reason":"unpaid"}`))
		p := b.Get("/account/keys").Shows(http.StatusOK, "This account is suspended", "Mine")
		require.NotContains(t, p.Body, "/rotate")
		b.requestKey("name", "x", "useCase", "x").Shows(http.StatusUnprocessableEntity, "suspended")
		b.Post("/account/keys/requests/"+r+"/collect").Shows(http.StatusBadRequest, "suspended")
		b.Post("/account/keys/"+id+"/rotate").Shows(http.StatusBadRequest, "suspended")
		b.Post("/account/keys/connect", "key", olderKey).Shows(http.StatusUnprocessableEntity)
		b.Post("/account/keys/" + id + "/revoke").Leads("/account/keys")
		require.Equal(t, "revoked", svc.listKeys("")[0].Status)
	})
}

// Pages and mails that mention the operator include the contact if it is configured.
func TestPagesAndMailsNameTheOperatorsAddress(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		for contact, address := range map[string]string{
			"": "", "help@api.example": "mailto:help@api.example", "https://api.example/help?a=1&b=2": "https://api.example/help?a=1&amp;b=2",
		} {
			svc, _ := s.startAt(t, begin, func(c *authquota.Config) { c.Contact = contact })
			b := svc.browser()
			b.signUp(strconv.Itoa(len(contact)) + "@example.org")
			servicetest.Read[listedAccount](svc.change(b.Account, "suspend", `{"reason":"unpaid"}`))
			for path, status := range map[string]int{"/account": http.StatusOK, "/account/plan": http.StatusOK, "/account/nothing": http.StatusNotFound} {
				p := b.Get(path).Shows(status, "the operator of the service")
				require.Equal(t, contact != "", strings.Contains(p.Body, `the operator of the service (<a href="`+address+`">`), p.Body)
			}
			isNotice := func(m received) bool {
				return m.subject == "Your account is suspended" && strings.Contains(m.header.Get("To"), strconv.Itoa(len(contact))+"@example.org")
			}
			storetest.Eventually(t, "the mail arrives", func() bool { return slices.ContainsFunc(s.mails(t), isNotice) })
			sent := s.mails(t)
			letter := sent[slices.IndexFunc(sent, isNotice)].plain
			require.Equal(t, contact != "", strings.Contains(strings.Join(strings.Fields(letter), " "), "the operator of the service ("+contact+")"), letter)
			svc.stop()
		}
	})
}

func TestLeakedKeyIsRevokedAndItsHolderNotified(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startAt(t, begin)
		b := svc.browser()
		b.signUp("ada@example.org")
		key, id := b.obtain("Mine")
		svc.do(http.MethodPost, "/operator/v1/keys/"+id+"/revoke", `{"leaked":true}`)
		require.NotNil(t, svc.principal(key).RevokedAt)
		svc.do(http.MethodPost, "/operator/v1/keys/"+id+"/revoke", `{"leaked":true}`)
		require.ElementsMatch(t, []string{"Your key is ready", "Your key Mine has leaked and was revoked"}, s.sent(t, 2))
		require.Contains(t, s.mails(t)[0].plain+s.mails(t)[1].plain, "Key: Mine (oda_live_…"+key[len(key)-4:])
		b.Get("/account/keys/"+id+"/revoke").Shows(http.StatusOK, "was revoked")
	})
}

// During a Redis outage a new key is shown, and the change to the old one takes effect when Redis is back.
func TestKeyPagesDuringRedisOutage(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startAt(t, begin)
		b := svc.browser()
		b.signUp("ada@example.org")
		key, id := b.obtain("Mine")
		before := svc.principal(key)
		s.Stop()
		p := b.Post("/account/keys/"+id+"/rotate").Shows(http.StatusOK, "takes effect shortly")
		next := secrets.FindString(p.Body)
		parsed, ok := apikey.Parse(next)
		require.True(t, ok)
		svc.keys = append(svc.keys, parsed.Reveal())
		successor := ""
		for _, k := range svc.listKeys("?account=" + b.Account) {
			if k.ID != id {
				successor = k.ID
			}
		}
		b.Post("/account/keys/" + successor + "/revoke").Leads("/account/keys")
		b.Get("/account/keys").Shows(http.StatusOK, "was revoked", "takes effect shortly")
		s.Start()
		storetest.Eventually(t, "delivered", func() bool { return strings.Contains(svc.Metrics(), "authquota_epoch_raises_pending 0") })
		require.NotNil(t, svc.principal(next).RevokedAt)
		require.Equal(t, begin.Add(24*time.Hour), svc.principal(key).ExpiresAt)
		require.Greater(t, svc.principal(key).Epoch, before.Epoch)
	})
}
