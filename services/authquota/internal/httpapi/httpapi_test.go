package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/services/authquota/internal/testkit"
	"opportunity.internal/services/authquota/internal/testkit/sitekit"
)

const unknown = "acc_0199a7a0000070008000000000000000"

func TestInvalidRequestsAreRejected(t *testing.T) {
	s := sitekit.New(t)
	key := s.Issue("")
	before := s.AuditEntries("")
	account, digest := "/operator/v1/accounts/"+key.Account, strings.Repeat("0a", 32)
	entitlement := "/internal/v1/entitlements/" + key.Account
	const issue, lookup, audit = "/operator/v1/keys", "/internal/v1/principals", "/operator/v1/audit"
	for _, c := range []struct {
		method, path, body string
		code               problem.Code
		words              string // of the message
	}{
		{"POST", account + "/suspend", "", problem.InvalidParameter, "reason"},
		{"POST", account + "/resume", `{"reason":"a\nb"}`, problem.InvalidParameter, "a line break"},
		{"POST", account + "/suspend", `{"reason":"x","until":"tomorrow"}`, problem.InvalidParameter, "until is unknown"},
		{"POST", account + "/grant", `{"tier":"business"}`, problem.InvalidParameter, "free, developer, commercial"},
		{"POST", account + "/close", `{}`, problem.NotFound, ""},
		{"POST", "/operator/v1/accounts/" + unknown + "/grant", `{"tier":"free"}`, problem.NotFound, "account"},
		{"POST", "/operator/v1/accounts/" + key.ID + "/suspend", `{"reason":"x"}`, problem.NotFound, "account"},
		{"POST", "/operator/v1/accounts/%00/suspend", `{"reason":"x"}`, problem.NotFound, ""},
		{"GET", "/operator/v1/accounts/" + unknown, "", problem.NotFound, "account"},
		{"GET", "/operator/v1/accounts?after=x", "", problem.InvalidParameter, "after"},
		{"GET", "/operator/v1/accounts?limit=x", "", problem.InvalidParameter, "limit"},
		{"GET", "/operator/v1/accounts?email=" + strings.Repeat("x", 255), "", problem.InvalidParameter, "email"},
		{"GET", "/operator/v1/accounts?page=1", "", problem.UnknownParameter, "page"},

		{"PUT", entitlement, `{"tier":"gold","version":1}`, problem.InvalidParameter, "tier must be that of a plan"},
		{"PUT", entitlement, `{"tier":"free","paidUntil":"2027-01-01T00:00:00Z","version":1}`, problem.InvalidParameter,
			"paidUntil must be null"},
		{"PUT", entitlement, `{"tier":"commercial","version":1}`, problem.InvalidParameter, "must be an instant"},
		{"PUT", entitlement, `{"tier":"commercial","paidUntil":"9999-01-01T00:00:00Z","version":1}`,
			problem.InvalidParameter, "before 9998"},
		{"PUT", entitlement, `{"tier":"free"}`, problem.InvalidParameter, "version must be at least 1"},
		{"PUT", entitlement, `{"tier":"free","version":1,"trouble":"late"}`, problem.InvalidParameter, "trouble must be"},

		{"POST", issue, "", problem.InvalidParameter, "useCase must"},
		{"POST", issue, `{"useCase":"a\u0001b"}`, problem.InvalidParameter, "U+0001"},
		{"POST", issue, `{"useCase":7}`, problem.InvalidParameter, "useCase must be a string"},
		{"POST", issue, `{"useCase":"x","expiresIn":"30x"}`, problem.InvalidParameter, "30d or 12h, above 0 and at most 365d"},
		{"POST", issue, `{"useCase":"x","test":"yes"}`, problem.InvalidParameter, "test must be a bool"},
		{"POST", issue, `{"useCase":"x","scope":"all"}`, problem.InvalidParameter, "scope is unknown"},
		{"POST", issue, `{"useCase":"x"} {}`, problem.InvalidParameter, "nothing after it"},
		{"POST", issue, `[]`, problem.InvalidParameter, "one JSON object"},
		{"POST", issue, `{"useCase":"` + strings.Repeat("x", 70_000) + `"}`, problem.InvalidParameter, "at most 65536 bytes"},
		{"POST", issue, `{"useCase":"x","account":"` + key.Account + `","tier":"commercial"}`, problem.InvalidParameter,
			key.Account + " has the tier free, not commercial. Leave the tier out to issue a free key, or change the tier of the " +
				"account and all its keys first: opportunity accounts grant " + key.Account + " commercial"},
		{"POST", issue, `{"useCase":"x","account":"` + unknown + `"}`, problem.NotFound, "account"},
		{"POST", issue, `{"useCase":"x","account":"x"}`, problem.NotFound, "account"},
		{"POST", issue + "?tier=free", `{"useCase":"x"}`, problem.UnknownParameter, "tier"},
		{"DELETE", issue, "", problem.MethodNotAllowed, ""},
		{"GET", issue + "?account=" + unknown, "", problem.NotFound, "account"},
		{"GET", issue + "?owner=x", "", problem.UnknownParameter, "owner"},
		{"POST", issue + "/key_0199a7a0000070008000000000000000/revoke", "", problem.NotFound, "key"},
		{"POST", issue + "/KEY_0199A7A0000070008000000000000000/revoke", "", problem.NotFound, "key"},
		{"POST", issue + "/" + key.ID + "/revoke", `{"reason":"x"}`, problem.InvalidParameter, "reason is unknown"},
		{"POST", issue + "/import?x=1", "", problem.UnknownParameter, "x"},
		{"GET", issue + "/requests?all=maybe", "", problem.InvalidParameter, "all"},
		{"GET", issue + "/requests?after=x", "", problem.InvalidParameter, "after"},
		{"POST", issue + "/requests/req_0199a7a0000070008000000000000000/approve", "", problem.NotFound, "request"},
		{"POST", issue + "/requests/" + key.Account + "/decline", `{"reason":"x"}`, problem.NotFound, "request"},

		{"POST", lookup, "", problem.InvalidParameter, "digests must have 1 to 8 entries"},
		{"POST", lookup, `{"digests":["` + strings.Repeat(digest+`","`, 8) + digest + `"]}`, problem.InvalidParameter, "1 to 8"},
		{"POST", lookup, `{"digests":["` + digest[1:] + `"]}`, problem.InvalidParameter, "hexadecimal"},
		{"POST", lookup, `{"digests":["` + digest + `"]}`, problem.NotFound, "key"},
		{"GET", "/internal/v1/key-digests?after=x", "", problem.InvalidParameter, "after"},
		{"POST", "/internal/v1/usage/2026-02-30/restore", "", problem.InvalidParameter, "day must be a day"},
		{"POST", "/internal/v1/usage-batches", `{"id":"1","counts":"x"}`, problem.InvalidParameter, "counts"},
		{"PUT", "/internal/v1/entitlements/" + unknown, `{"tier":"free","version":1}`, problem.NotFound, "account"},
		{"PUT", "/internal/v1/entitlements/" + key.Account, `{"tier":"commercial","paidUntil":1795000000}`,
			problem.InvalidParameter, "Times must look like 2027-01-31T00:00:00Z."},

		{"GET", audit + "?account=x", "", problem.InvalidParameter, "account"},
		{"GET", audit + "?action=%25", "", problem.InvalidParameter, "action"},
		{"GET", audit + "?since=yesterday", "", problem.InvalidParameter, "since"},
		{"GET", audit + "?limit=1001", "", problem.InvalidParameter, "limit"},
		{"GET", audit + "?before=-1", "", problem.InvalidParameter, "before"},
		{"GET", audit + "?actor=" + strings.Repeat("x", 255), "", problem.InvalidParameter, "actor"},
		{"GET", "/operator/v1/usage?days=401", "", problem.InvalidParameter, "days"},
		{"POST", "/operator/v1/announcements", `{"id":"v2"}`, problem.InvalidParameter, "kind"},
	} {
		s.Do(c.method, c.path, c.body).RequireError(c.code, c.words)
	}
	anonymous := servicetest.Send(t, http.MethodPost, s.URL+account+"/grant", `{"tier":"developer"}`,
		http.Header{"Authorization": {"Bearer " + servicetest.Token(peer.Gateway)}})
	require.GreaterOrEqual(t, anonymous.Status, 400, "no change without a name to record")
	require.Equal(t, before, s.AuditEntries(""), "nothing was done")
}

// What a batch must have is tested in package keyusage.
func TestLargestUsageBatchIsAccepted(t *testing.T) {
	s := sitekit.New(t)
	b := s.SignUp("ada@example.org")
	key := s.Issue(b.Account)
	batch := api.UsageBatch{ID: uuid.Must(uuid.NewV7()).String()}
	for i := range api.MaxUsageCounts {
		batch.Counts = append(batch.Counts, api.UsageCount{
			Day: "2026-11-20", Key: fmt.Sprintf("key_0199a7a0000070008000%012x", i), Outcome: api.CallServed, Calls: 1,
			LastAt: s.Now().Add(123456 * time.Microsecond),
		})
	}
	batch.Counts[0].Key = key.ID // the others are unknown
	for i := range api.MaxUsageRequests {
		batch.Requests = append(batch.Requests, api.LoggedRequest{
			ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i), Key: key.ID, At: s.Now(), Route: "/api/v1/opportunities",
			Params: strings.Repeat("remote=false&", 38) + "remote=true", Status: 200, // nearly api.MaxLoggedQuery
		})
	}
	send := func() int { return s.Do(http.MethodPost, "/internal/v1/usage-batches", batch).Status }
	require.Equal(t, http.StatusNoContent, send())
	require.Contains(t, s.Log.String(), "usage batch: unknown keys skipped")
	require.Contains(t, b.Get("/account/usage.csv").Body, ",served,1\r\n")
	require.Contains(t, b.Get("/account/usage/requests").Body, batch.Requests[0].ID)

	batch.ID, batch.Requests[1].Route = uuid.Must(uuid.NewV7()).String(), "/api/v1/a private name"
	require.Equal(t, http.StatusBadRequest, send())
	require.Contains(t, b.Get("/account/usage.csv").Body, ",served,1\r\n", "nothing of a rejected batch")
}

func TestOperatorsReadTheAuditLog(t *testing.T) {
	s := sitekit.New(t)
	key, other := s.Issue(""), s.Issue("")
	s.Advance(time.Hour)
	s.Grant(key.Account, api.Developer)
	s.Advance(time.Hour)
	s.Revoke(key.ID)
	b := s.SignUp("ada@example.org")
	b.Post("/account/sign-out").Leads("/account/sign-in")
	lines := func(query string) (lines []string) {
		t.Helper()
		for _, e := range s.AuditEntries(query) {
			lines = append(lines, e.Actor+" "+e.Action+" "+e.Subject)
		}
		return lines
	}

	all := s.AuditEntries("")
	require.Len(t, all, 10)
	require.Equal(t, b.Account, all[0].Actor, "newest first, with what people do")
	require.Equal(t, all, s.AuditEntries(""), "reading leaves no entry")
	ours := []string{
		"ada key.revoke " + key.ID, "ada account.grant " + key.Account, "ada key.issue " + key.ID,
		"ada account.create " + key.Account,
	}
	for query, want := range map[string][]string{
		"?account=" + key.Account:                                 ours, // and its keys
		"?account=" + key.Account + "&since=2026-11-20T11:00:00Z": ours[:2],
		"?account=" + key.Account + "&until=2026-11-20T11:00:00Z": ours[2:],
		"?action=key.":                    {ours[0], "ada key.issue " + other.ID, ours[2]},
		"?action=account.grant&actor=ada": ours[1:2],
		"?actor=eve":                      nil,
		"?action=account_grant":           nil,
	} {
		require.Equal(t, want, lines(query), query)
	}
	granted := s.AuditEntries("?action=account.grant")[0]
	require.Equal(t, testkit.Start.Add(time.Hour), granted.At)
	require.JSONEq(t, `{"from":"free","to":"developer"}`, string(granted.Detail))

	var paged []api.AuditEntry
	for query := "?limit=3"; query != ""; {
		page := servicetest.Read[api.AuditList](s.Do(http.MethodGet, "/operator/v1/audit"+query, nil))
		paged = append(paged, page.Entries...)
		if query = ""; page.Next != 0 {
			require.Len(t, page.Entries, 3)
			query = fmt.Sprintf("?limit=3&before=%d", page.Next)
		}
	}
	require.Equal(t, all, paged)
}

func TestOperatorsFindAndSeeAccounts(t *testing.T) {
	testkit.OnBoth(t, func(t *testing.T, db testkit.DB) {
		s := sitekit.On(t, db)
		noPerson, ada, bob := s.Issue(""), s.SignUp("ada_l@example.org"), s.SignUp("adam@example.org")
		find := func(query string) (ids []string) {
			t.Helper()
			for _, a := range s.ListAccounts(query) {
				ids = append(ids, a.ID)
			}
			return ids
		}
		for email, want := range map[string][]string{
			"ada_l@example.org": {ada.Account}, "ADA_L": {ada.Account}, "ada": {ada.Account, bob.Account},
			"@example.org": {ada.Account, bob.Account}, "a%25a": nil, "ad__": nil, // a part is no pattern
		} {
			require.Equal(t, want, find("?email="+email), email)
		}
		page := servicetest.Read[api.AccountList](s.Do(http.MethodGet, "/operator/v1/accounts?limit=2", nil))
		require.Equal(t, ada.Account, page.Next)
		require.Equal(t, []string{bob.Account}, find("?limit=2&after="+page.Next))
		require.Equal(t, noPerson.Account, page.Accounts[0].ID)

		key, second := s.Issue(ada.Account), s.Issue(ada.Account)
		first := servicetest.Read[api.KeyList](s.Do(http.MethodGet, "/operator/v1/keys?limit=1&account="+ada.Account, nil))
		require.Equal(t, key.ID, first.Next)
		require.Equal(t, second.ID, s.ListKeys("?limit=1&account=" + ada.Account + "&after=" + first.Next)[0].ID)

		s.Suspend(ada.Account, "unpaid")
		require.NoError(t, db.Exec("INSERT INTO usage_days VALUES ('2026-11-20', ?, 7)", ada.Account).Error)
		seen := s.Account(ada.Account)
		require.Equal(t, &api.AccountPerson{Email: "ada_l@example.org", AuthenticatorConfirmed: true, RecoveryCodesLeft: 10,
			Sessions: 1, CreatedAt: testkit.Start}, seen.Person)
		require.Equal(t, []any{true, "unpaid", 7, 100, 2},
			[]any{seen.Suspended, *seen.SuspendReason, seen.UsedToday, seen.PerDay, len(seen.Keys)})
		require.Equal(t, "account.suspend", seen.Audit[0].Action)
		require.Equal(t, []any{7, 2}, []any{s.ListAccounts("")[1].UsedToday, s.ListAccounts("")[1].Keys})
		require.Nil(t, s.Account(noPerson.Account).Person)
		require.Contains(t, s.Do(http.MethodGet, "/operator/v1/accounts/"+noPerson.Account, nil).Body, `"requests":[]`)
		s.Advance(31 * time.Minute)
		require.Zero(t, s.Account(ada.Account).Person.Sessions, "unused for half an hour")
		s.Resume(ada.Account)
		ada.SignIn()
		ada.Post("/account/security/close", "email", ada.Email).Leads("/account/sign-in")
		require.Empty(t, s.Account(ada.Account).Person.Email)
		require.Equal(t, "closed", s.Account(ada.Account).Status)
		require.Equal(t, []string{bob.Account}, find("?email=@example.org"))
		require.Empty(t, find("?email=closed"))
	})
}
