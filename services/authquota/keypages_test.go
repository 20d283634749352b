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
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota"
)

var (
	requestIDs = regexp.MustCompile(`req_[0-9a-f]{32}`)
	secrets    = regexp.MustCompile(`oda_(live|test)_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}`)
)

// startMoved runs the service on a clock that the test moves.
func (s *stores) startMoved(t *testing.T, at time.Time, adjust ...func(*authquota.Config)) (*service, *clock) {
	t.Helper()
	c := clockAt(at)
	svc := s.start(t, append(adjust, func(cfg *authquota.Config) { cfg.Now = c.Now })...)
	svc.now = c.Now
	return svc, c
}

func approving(c *authquota.Config) { c.AutoApprove = true }

// requestKey submits a key request and accepts the terms of use.
func (b *browser) requestKey(fields ...string) page {
	return b.post("/account/keys/new", append(fields, "terms", "accepted", "termsVersion", api.TermsVersion)...)
}

// ask requests a key and returns the ID of the request.
func (b *browser) ask(name string) string {
	t := b.svc.t
	t.Helper()
	before := b.requests()
	p := b.requestKey("name", name, "useCase", "a job board for Ontario")
	require.Equal(t, http.StatusSeeOther, p.status, "%s", p.body)
	for _, r := range b.requests() {
		if !strings.Contains(strings.Join(before, " "), r) {
			return r
		}
	}
	t.Fatal("the request is not on the page of keys")
	return ""
}

func (b *browser) requests() []string { return unique(requestIDs, b.get("/account/keys").body) }

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
func (b *browser) secret(p page) (key, id string) {
	t := b.svc.t
	t.Helper()
	require.Equal(t, http.StatusOK, p.status, "%s", p.body)
	found := unique(secrets, p.body)
	require.Len(t, found, 1)
	b.svc.keys = append(b.svc.keys, found[0])
	return found[0], b.svc.principal(found[0]).Key
}

// obtain requests a key, has it approved and collects it.
func (b *browser) obtain(name string) (key, id string) {
	b.svc.t.Helper()
	r := b.ask(name)
	b.svc.decide(r, "approve", nil)
	return b.secret(b.post("/account/keys/requests/" + r + "/collect"))
}

func (s *service) decide(request, act string, body any) answer {
	s.t.Helper()
	return s.do(http.MethodPost, "/operator/v1/keys/requests/"+request+"/"+act, body)
}

func (s *service) listRequests(query string) []api.KeyRequest {
	s.t.Helper()
	return read[api.KeyRequestList](s.do(http.MethodGet, "/operator/v1/keys/requests"+query, nil)).Requests
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

var begin = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

func TestAKeyFromItsRequestToItsEnd(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, clock := s.startMoved(t, begin)
		b := svc.browser()
		b.signIn("ada@example.org")
		b.get("/account/keys").shows(http.StatusOK, "0 of 5 keys in use", "You have no active keys")
		b.get("/account/keys/new").shows(http.StatusOK, "Request a key", "Use case")
		b.requestKey("name", " ", "useCase", "<b>a board</b>").shows(http.StatusUnprocessableEntity,
			"There is a problem", "Enter a name of at most 60 characters.", "<b>a board</b>")
		b.requestKey("name", " Website ", "useCase", "a job board\r\nfor Ontario").leads("/account/keys")
		b.get("/account/keys").shows(http.StatusOK, "Your request was sent", "Website", "Waiting for approval", "1 of 5 keys in use")
		asked := svc.listRequests("")
		require.Equal(t, []api.KeyRequest{{
			ID: asked[0].ID, Account: b.account, Name: "Website", UseCase: "a job board for Ontario", State: "asked", AskedAt: begin,
		}}, asked)
		id := asked[0].ID
		collect := "/account/keys/requests/" + id + "/collect"
		b.get(collect).shows(http.StatusBadRequest)
		b.post(collect).shows(http.StatusBadRequest, "waiting for approval")

		clock.move(time.Minute)
		decided := read[api.KeyRequest](svc.decide(id, "approve", nil))
		require.Equal(t, "approved", decided.State)
		require.Equal(t, actor, decided.DecidedBy)
		require.Equal(t, begin.Add(time.Minute), *decided.DecidedAt)
		require.Equal(t, decided, read[api.KeyRequest](svc.decide(id, "approve", nil)), "twice is once")
		require.Empty(t, svc.listRequests(""))
		require.Equal(t, []api.KeyRequest{decided}, svc.listRequests("?all=true"))
		require.ElementsMatch(t, []string{"Your key is ready"}, s.sent(t, 1))
		require.Contains(t, s.mails(t)[0].plain, "https://api.example/account/keys")

		b.get("/account/keys").shows(http.StatusOK, "Approved", "Get the key")
		b.get(collect).shows(http.StatusOK, "once")
		shown := b.post(collect).shows(http.StatusOK, "Copy your key now")
		require.Equal(t, "no-store", shown.header.Get("Cache-Control"))
		key, keyID := b.secret(shown)
		require.Contains(t, shown.text(), "curl -H 'Authorization: Bearer "+key+"' 'https://api.example/api/v1/opportunities?country=CA'")
		p := svc.principal(key)
		require.Equal(t, b.account, p.Account)
		require.Equal(t, begin.Add(time.Minute+365*24*time.Hour), p.ExpiresAt)
		b.post(collect).shows(http.StatusBadRequest, "already collected", "rotate it")
		svc.decide(id, "decline", `{"reason":"too late"}`).rejected(problem.InvalidParameter,
			"approved by ada on 20 November 2026, 10:01 UTC", "revoke the key")
		require.Equal(t, "collected", read[api.KeyRequest](svc.decide(id, "approve", nil)).State, "the same decision, after its key was collected")

		b.get("/account/keys").shows(http.StatusOK, "Website", "oda_live_…"+key[len(key)-4:], "Active", "never", "1 of 5 keys in use")
		b.post("/account/keys/"+keyID+"/name", "name", "Board <3").leads("/account/keys/" + keyID)
		b.get("/account/keys/"+keyID).shows(http.StatusOK, "Board <3", "a job board for Ontario", "was renamed")

		clock.move(time.Hour)
		b.svc.renew(b)
		b.get("/account/keys/"+keyID+"/rotate").shows(http.StatusOK, "21 November 2026, 11:01 UTC")
		next, nextID := b.secret(b.post("/account/keys/" + keyID + "/rotate"))
		require.Equal(t, clock.Now().Add(365*24*time.Hour), svc.principal(next).ExpiresAt, "a full life of its own")
		after := svc.principal(key)
		require.Equal(t, begin.Add(25*time.Hour+time.Minute), after.ExpiresAt)
		require.Greater(t, after.Epoch, p.Epoch, "gateways that keep the longer life must notice")
		b.get("/account/keys").shows(http.StatusOK, "Replaced", "1 of 5 keys in use")
		b.get("/account/keys/"+keyID+"/rotate").shows(http.StatusBadRequest, "already rotated")
		b.post("/account/keys/"+keyID+"/rotate").shows(http.StatusBadRequest, "already rotated")
		require.Equal(t, nextID, svc.listKeys("?account=" + b.account)[0].Successor)
		b.post("/account/keys/"+nextID+"/rotate").shows(http.StatusBadRequest, "Revoke the old one first")
		require.Len(t, svc.listKeys("?account="+b.account), 2, "no more keys than places, by rotating again and again")

		epoch := svc.principal(next).Epoch
		b.get("/account/keys/"+nextID+"/revoke").shows(http.StatusOK, "cannot be undone")
		b.post("/account/keys/" + nextID + "/revoke").leads("/account/keys")
		b.get("/account/keys").shows(http.StatusOK, "Board <3 was revoked", "Ended keys (1)")
		gone := svc.principal(next)
		require.NotNil(t, gone.RevokedAt)
		require.Greater(t, gone.Epoch, epoch)
		require.Nil(t, svc.principal(key).RevokedAt, "the other goes on to the end of its grace")
		clock.move(24 * time.Hour)
		b.svc.renew(b)
		b.get("/account/keys").shows(http.StatusOK, "0 of 5 keys in use", "Expired", "Ended keys (2)")
		require.ElementsMatch(t, []string{"Your key is ready", "Your key Board <3 was rotated", "Your key Board <3 was revoked"}, s.sent(t, 3))
	})
}

// renew keeps the browser signed in after the clock has moved.
func (s *service) renew(b *browser) {
	s.t.Helper()
	now := s.now().UnixMicro()
	require.NoError(s.t, s.open(s.t).Exec("UPDATE sessions SET seen_at = ?, authenticated_at = ?, expires_at = ? WHERE account_id = ?",
		now, now, s.now().Add(12*time.Hour).UnixMicro(), b.account).Error)
}

func TestRequestsAreDeclinedWithAReasonOrWithdrawn(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startMoved(t, begin)
		b := svc.browser()
		b.signIn("ada@example.org")
		first, second := b.ask("First"), b.ask("Second")
		svc.decide(first, "decline", nil).rejected(problem.InvalidParameter, "reason")
		require.Equal(t, "say who reads it", read[api.KeyRequest](svc.decide(first, "decline", `{"reason":"say who reads it"}`)).Reason)
		b.get("/account/keys").shows(http.StatusOK, "Declined", "say who reads it")
		b.post("/account/keys/requests/"+first+"/collect").shows(http.StatusBadRequest, "This request was declined.", "Your keys")
		b.post("/account/keys/requests/"+first+"/withdraw").shows(http.StatusBadRequest, "This request was declined.")
		svc.decide(first, "approve", nil).rejected(problem.InvalidParameter, "declined by ada on 20 November 2026, 10:00 UTC")
		again := read[api.KeyRequest](svc.decide(first, "decline", `{"reason":"another reason"}`))
		require.Equal(t, "say who reads it", again.Reason, "the decision stays as it was made")
		b.post("/account/keys/requests/" + first + "/collect").shows(http.StatusBadRequest)
		b.post("/account/keys/requests/" + first + "/withdraw").shows(http.StatusBadRequest)

		svc.decide(second, "approve", nil)
		svc.decide(second, "decline", `{"reason":"a second thought"}`).rejected(problem.InvalidParameter, "approved by ada")
		third := b.ask("Third")
		b.post("/account/keys/requests/" + third + "/withdraw").leads("/account/keys")
		b.post("/account/keys/requests/" + third + "/withdraw").leads("/account/keys")
		svc.decide(third, "approve", nil).rejected(problem.InvalidParameter, "withdrawn")
		require.ElementsMatch(t, []string{"Your request for a key was declined", "Your key is ready"}, s.sent(t, 2))

		page := read[api.KeyRequestList](svc.do(http.MethodGet, "/operator/v1/keys/requests?all=true&limit=2", nil))
		require.Len(t, page.Requests, 2)
		require.Equal(t, second, page.Next)
		require.Equal(t, third, svc.listRequests("?all=true&after=" + page.Next)[0].ID)
		svc.do(http.MethodGet, "/operator/v1/keys/requests?after=x", nil).rejected(problem.InvalidParameter, "after")
		for _, id := range []string{"x", "%00", "req_0199a7a0000070008000000000000000", b.account} {
			svc.decide(id, "approve", nil).rejected(problem.NotFound)
		}
		svc.do(http.MethodGet, "/operator/v1/keys/requests?all=maybe", nil).rejected(problem.InvalidParameter, "all")
		require.Empty(t, svc.listKeys(""))

		var log []string
		require.NoError(t, s.open(t).Raw(`SELECT actor || ' ' || action || ' ' || subject || ' ' || detail FROM audit_log
			WHERE action LIKE 'key.%' ORDER BY id`).Scan(&log).Error)
		own := ` {"account":"` + b.account + `"}`
		require.Equal(t, []string{
			b.account + " key.request " + first + ` {"account":"` + b.account + `","name":"First","useCase":"a job board for Ontario"}`,
			b.account + " key.request " + second + ` {"account":"` + b.account + `","name":"Second","useCase":"a job board for Ontario"}`,
			"ada key.decline " + first + ` {"account":"` + b.account + `","reason":"say who reads it"}`,
			"ada key.approve " + second + own,
			b.account + " key.request " + third + ` {"account":"` + b.account + `","name":"Third","useCase":"a job board for Ontario"}`,
			b.account + " key.withdraw " + third + own,
		}, log)
	})
}

func TestKeysAreApprovedAtOnceWhereThatIsSet(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startMoved(t, begin, approving)
		b := svc.browser()
		b.signIn("ada@example.org")
		p := b.requestKey("name", "Mine", "useCase", "trying")
		r := svc.listRequests("?all=true")[0]
		p.leads("/account/keys/requests/" + r.ID + "/collect")
		require.Equal(t, "auto-approve", r.DecidedBy)
		b.secret(b.post("/account/keys/requests/" + r.ID + "/collect"))
		require.Empty(t, s.mails(t), "whoever asked sees it")
	})
}

func TestKeysOfOthersAreNotFound(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startMoved(t, begin)
		ada, bob := svc.browser(), svc.browser()
		ada.signIn("ada@example.org")
		bob.signIn("bob@example.org")
		_, id := ada.obtain("Hers")
		r := ada.ask("Hers too")
		svc.decide(r, "approve", nil)
		for _, id := range []string{id, "x", "key_0199a7a0000070008000000000000000", r} {
			bob.get("/account/keys/" + id).shows(http.StatusNotFound)
			bob.post("/account/keys/"+id+"/name", "name", "mine").shows(http.StatusNotFound)
			for _, act := range []string{"/rotate", "/revoke"} {
				bob.get("/account/keys/" + id + act).shows(http.StatusNotFound)
				bob.post("/account/keys/" + id + act).shows(http.StatusNotFound)
			}
			bob.get("/account/keys/requests/" + id + "/collect").shows(http.StatusNotFound)
			bob.post("/account/keys/requests/" + id + "/collect").shows(http.StatusNotFound)
			bob.post("/account/keys/requests/" + id + "/withdraw").shows(http.StatusNotFound)
		}
		keys := svc.listKeys("")
		require.Len(t, keys, 1)
		require.Equal(t, "active", keys[0].Status)
		require.Equal(t, "Hers", keys[0].Name)
		require.Equal(t, "approved", svc.listRequests("?all=true")[1].State)
		bob.get("/account/keys").shows(http.StatusOK, "0 of 5 keys in use")
	})
}

func TestASuspendedAccountSeesItsKeysAndRevokesThem(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startMoved(t, begin)
		b := svc.browser()
		b.signIn("ada@example.org")
		_, id := b.obtain("Mine")
		r := b.ask("Another")
		svc.decide(r, "approve", nil)
		read[listedAccount](svc.change(b.account, "suspend", `{"reason":"unpaid"}`))
		p := b.get("/account/keys").shows(http.StatusOK, "This account is suspended", "Mine")
		require.NotContains(t, p.body, "/rotate")
		b.requestKey("name", "x", "useCase", "x").shows(http.StatusUnprocessableEntity, "suspended")
		b.post("/account/keys/requests/"+r+"/collect").shows(http.StatusBadRequest, "suspended")
		b.post("/account/keys/"+id+"/rotate").shows(http.StatusBadRequest, "suspended")
		b.post("/account/keys/connect", "key", olderKey).shows(http.StatusUnprocessableEntity)
		b.post("/account/keys/" + id + "/revoke").leads("/account/keys")
		require.Equal(t, "revoked", svc.listKeys("")[0].Status)
	})
}

// Pages and mails that mention the operator include the contact if it is configured.
func TestPagesAndMailsNameTheOperatorsAddress(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		for contact, address := range map[string]string{
			"": "", "help@api.example": "mailto:help@api.example", "https://api.example/help?a=1&b=2": "https://api.example/help?a=1&amp;b=2",
		} {
			svc, _ := s.startMoved(t, begin, func(c *authquota.Config) { c.Contact = contact })
			b := svc.browser()
			b.signIn(strconv.Itoa(len(contact)) + "@example.org")
			read[listedAccount](svc.change(b.account, "suspend", `{"reason":"unpaid"}`))
			for path, status := range map[string]int{"/account": http.StatusOK, "/account/plan": http.StatusOK, "/account/nothing": http.StatusNotFound} {
				p := b.get(path).shows(status, "the operator of the service")
				require.Equal(t, contact != "", strings.Contains(p.body, `the operator of the service (<a href="`+address+`">`), p.body)
			}
			told := func(m received) bool {
				return m.subject == "Your account is suspended" && strings.Contains(m.header.Get("To"), strconv.Itoa(len(contact))+"@example.org")
			}
			storetest.Eventually(t, "told", func() bool { return slices.ContainsFunc(s.mails(t), told) })
			sent := s.mails(t)
			letter := sent[slices.IndexFunc(sent, told)].plain
			require.Equal(t, contact != "", strings.Contains(strings.Join(strings.Fields(letter), " "), "the operator of the service ("+contact+")"), letter)
			svc.stop()
		}
	})
}

func TestLeakedKeyIsRevokedAndItsHolderNotified(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startMoved(t, begin)
		b := svc.browser()
		b.signIn("ada@example.org")
		key, id := b.obtain("Mine")
		svc.do(http.MethodPost, "/operator/v1/keys/"+id+"/revoke", `{"leaked":true}`)
		require.NotNil(t, svc.principal(key).RevokedAt)
		svc.do(http.MethodPost, "/operator/v1/keys/"+id+"/revoke", `{"leaked":true}`)
		require.ElementsMatch(t, []string{"Your key is ready", "Your key Mine has leaked and was revoked"}, s.sent(t, 2))
		require.Contains(t, s.mails(t)[0].plain+s.mails(t)[1].plain, "Key: Mine (oda_live_…"+key[len(key)-4:])
		b.get("/account/keys/"+id+"/revoke").shows(http.StatusOK, "was revoked")
	})
}

// During a Redis outage a new key is shown, and the change to the old one takes effect when Redis is back.
func TestKeyPagesDuringRedisOutage(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startMoved(t, begin)
		b := svc.browser()
		b.signIn("ada@example.org")
		key, id := b.obtain("Mine")
		before := svc.principal(key)
		s.Stop()
		p := b.post("/account/keys/"+id+"/rotate").shows(http.StatusOK, "takes effect shortly")
		next := secrets.FindString(p.body)
		parsed, ok := apikey.Parse(next)
		require.True(t, ok)
		svc.keys = append(svc.keys, parsed.Reveal())
		successor := ""
		for _, k := range svc.listKeys("?account=" + b.account) {
			if k.ID != id {
				successor = k.ID
			}
		}
		b.post("/account/keys/" + successor + "/revoke").leads("/account/keys")
		b.get("/account/keys").shows(http.StatusOK, "was revoked", "takes effect shortly")
		s.Start()
		storetest.Eventually(t, "delivered", func() bool { return strings.Contains(svc.metrics(), "authquota_epoch_raises_pending 0") })
		require.NotNil(t, svc.principal(next).RevokedAt)
		require.Equal(t, begin.Add(24*time.Hour), svc.principal(key).ExpiresAt)
		require.Greater(t, svc.principal(key).Epoch, before.Epoch)
	})
}
