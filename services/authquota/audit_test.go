package authquota_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
)

func (s *service) audit(query string) api.AuditList {
	s.t.Helper()
	return servicetest.Read[api.AuditList](s.do(http.MethodGet, "/operator/v1/audit"+query, nil))
}

// lines formats the entries as lines.
func lines(entries []api.AuditEntry) (lines []string) {
	for _, e := range entries {
		lines = append(lines, e.Actor+" "+e.Action+" "+e.Subject)
	}
	return lines
}

func actionsOf(entries []api.AuditEntry) (actions []string) {
	for _, e := range entries {
		actions = append(actions, e.Action)
	}
	return actions
}

func TestOperatorsReadTheAuditLog(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		now := servicetest.NewClock(begin)
		svc := s.start(t, on(now))
		key, other := svc.issue(nil), svc.issue(nil)
		now.Advance(time.Hour)
		servicetest.Read[listedAccount](svc.change(key.Account, "grant", `{"tier":"developer"}`))
		now.Advance(time.Hour)
		servicetest.Read[listedKey](svc.revoke(key.ID))
		browser := svc.browser()
		browser.signUp("ada@example.org")
		browser.Post("/account/sign-out").Leads("/account/sign-in")

		all := svc.audit("")
		require.Zero(t, all.Next)
		require.Len(t, all.Entries, 10)
		require.Equal(t, browser.Account, all.Entries[0].Actor, "newest first: what people do is there too")
		require.Equal(t, all, svc.audit(""), "reading leaves no entry")
		ours := []string{
			"ada key.revoke " + key.ID, "ada account.grant " + key.Account, "ada key.issue " + key.ID, "ada account.create " + key.Account,
		}
		require.Equal(t, ours, lines(svc.audit("?account="+key.Account).Entries), "and its keys")
		require.Equal(t, ours[:2], lines(svc.audit("?account="+key.Account+"&since=2026-11-20T11:00:00Z").Entries))
		require.Equal(t, []string{"ada key.revoke " + key.ID, "ada key.issue " + other.ID, "ada key.issue " + key.ID}, lines(svc.audit("?action=key.").Entries))
		require.Equal(t, ours[1:2], lines(svc.audit("?action=account.grant&actor=ada").Entries))
		require.Equal(t, []string{"session.end", "person.sign_in", "factor.add", "person.sign_up"}, actionsOf(svc.audit("?actor="+browser.Account).Entries))
		require.Empty(t, svc.audit("?actor=nobody").Entries)
		require.Empty(t, svc.audit("?action=account_grant").Entries)

		granted := svc.audit("?action=account.grant").Entries[0]
		require.Equal(t, begin.Add(time.Hour), granted.At)
		require.JSONEq(t, `{"from":"free","to":"developer"}`, string(granted.Detail))

		var paged []api.AuditEntry
		pages := 0
		for query := "?limit=3"; ; pages++ {
			page := svc.audit(query)
			paged = append(paged, page.Entries...)
			if page.Next == 0 {
				break
			}
			require.Len(t, page.Entries, 3)
			query = fmt.Sprintf("?limit=3&before=%d", page.Next)
		}
		require.Equal(t, 3, pages)
		require.Equal(t, all.Entries, paged)

		for query, name := range map[string]string{
			"account=x": "account", "action=%25": "action", "action=KEY": "action", "since=yesterday": "since", "limit=0": "limit", "limit=1001": "limit",
			"before=-1": "before", "before=x": "before",
		} {
			svc.do(http.MethodGet, "/operator/v1/audit?"+query, nil).RequireError(problem.InvalidParameter, name)
		}
		svc.do(http.MethodGet, "/operator/v1/audit?subject=x", nil).RequireError(problem.UnknownParameter)
	})
}

func TestOperatorsFindAndSeeAccounts(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		now := servicetest.NewClock(begin)
		svc := s.start(t, on(now))
		noPerson := svc.issue(nil)
		ada, bob := svc.browser(), svc.browser()
		ada.signUp("ada_l@example.org")
		bob.signUp("adam@example.org")
		find := func(email string) (ids []string) {
			t.Helper()
			for _, a := range servicetest.Read[api.AccountList](svc.do(http.MethodGet, "/operator/v1/accounts?email="+url.QueryEscape(email), nil)).Accounts {
				ids = append(ids, a.ID)
			}
			return ids
		}
		require.Equal(t, []string{ada.Account}, find("ada_l@example.org"))
		require.Equal(t, []string{ada.Account}, find("ADA_L"))
		require.Equal(t, []string{ada.Account, bob.Account}, find("ada"))
		require.Equal(t, []string{ada.Account, bob.Account}, find("@example.org"))
		require.Empty(t, find("a%a"))
		require.Empty(t, find("ad__"), "a part is no pattern")

		var ids []string
		for query := "?limit=1"; query != ""; {
			page := servicetest.Read[api.AccountList](svc.do(http.MethodGet, "/operator/v1/accounts"+query, nil))
			require.Len(t, page.Accounts, 1)
			ids = append(ids, page.Accounts[0].ID)
			query = ""
			if page.Next != "" {
				query = "?limit=1&after=" + page.Next
			}
		}
		require.Equal(t, []string{noPerson.Account, ada.Account, bob.Account}, ids)
		svc.do(http.MethodGet, "/operator/v1/accounts?after=x", nil).RequireError(problem.InvalidParameter, "after")
		svc.do(http.MethodGet, "/operator/v1/accounts?limit=x", nil).RequireError(problem.InvalidParameter, "limit")

		key := svc.issue(map[string]any{"account": ada.Account})
		second := svc.issue(map[string]any{"account": ada.Account})
		page := servicetest.Read[api.KeyList](svc.do(http.MethodGet, "/operator/v1/keys?limit=1&account="+ada.Account, nil))
		require.Equal(t, key.ID, page.Next)
		page = servicetest.Read[api.KeyList](svc.do(http.MethodGet, "/operator/v1/keys?limit=1&account="+ada.Account+"&after="+page.Next, nil))
		require.Equal(t, second.ID, page.Keys[0].ID)
		require.Empty(t, page.Next)

		servicetest.Read[listedAccount](svc.change(ada.Account, "suspend", `{"reason":"unpaid"}`))
		s.charge(t, "2026-11-20", map[string]int{ada.Account: 7})
		show := func(id string) api.AccountDetail {
			t.Helper()
			return servicetest.Read[api.AccountDetail](svc.do(http.MethodGet, "/operator/v1/accounts/"+id, nil))
		}
		storetest.Eventually(t, "usage", func() bool { return show(ada.Account).UsedToday == 7 })
		seen := show(ada.Account)
		require.Equal(t, &api.AccountPerson{Email: "ada_l@example.org", AuthenticatorConfirmed: true, RecoveryCodesLeft: 10, Sessions: 1, CreatedAt: begin}, seen.Person)
		require.True(t, seen.Suspended)
		require.Equal(t, "unpaid", *seen.SuspendReason)
		require.Len(t, seen.Keys, 2)
		require.Equal(t, 100, seen.PerDay)
		require.Equal(t, []string{"ada account.suspend " + ada.Account, "ada key.issue " + second.ID, "ada key.issue " + key.ID}, lines(seen.Audit[:3]))
		require.Nil(t, show(noPerson.Account).Person)
		var whole map[string]any
		require.NoError(t, json.Unmarshal([]byte(svc.do(http.MethodGet, "/operator/v1/accounts/"+noPerson.Account, nil).Body), &whole))
		require.Equal(t, []any{}, whole["requests"], "an empty list is a list")
		now.Advance(31 * time.Minute)
		require.Zero(t, show(ada.Account).Person.Sessions, "nobody has used it for half an hour")
		servicetest.Read[listedAccount](svc.change(ada.Account, "resume", `{"reason":"paid"}`))
		ada.SignIn()
		ada.Post("/account/security/close", "email", ada.Email).Leads("/account/sign-in")
		require.Empty(t, show(ada.Account).Person.Email)
		require.Equal(t, "closed", show(ada.Account).Status)
		require.Equal(t, []string{bob.Account}, find("@example.org"))
		require.Empty(t, find("closed"))
		svc.do(http.MethodGet, "/operator/v1/accounts/x", nil).RequireError(problem.NotFound)
		svc.do(http.MethodGet, "/operator/v1/accounts/acc_0199a7a0000070008000000000000000", nil).RequireError(problem.NotFound)
	})
}
