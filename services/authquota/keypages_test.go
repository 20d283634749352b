package authquota_test

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/testkit"
)

var (
	requestIDs = regexp.MustCompile(`req_[0-9a-f]{32}`)
	secrets    = regexp.MustCompile(`oda_(live|test)_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}`)
)

// requestKey submits a key request and accepts the terms of use.
func (b *browser) requestKey(fields ...string) testkit.Page {
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
func (b *browser) secret(p testkit.Page) (key, id string) {
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

// sent returns the subjects of the n mails sent.
func (s *stores) sent(t *testing.T, n int) (subjects []string) {
	t.Helper()
	storetest.Eventually(t, "mails", func() bool { return len(s.mails(t)) == n && s.waiting(t) == 0 })
	for _, m := range s.mails(t) {
		subjects = append(subjects, m.subject)
	}
	return subjects
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
