package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	routes "opportunity.internal/services/authquota/internal/api"
	"opportunity.internal/services/authquota/internal/httpapi/httpapitest"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/notices"
)

// announcements records the calls.
type announcements struct {
	calls   []string
	failure error
}

func (a *announcements) Preview(n notices.Announcement) (mail.Letter, error) {
	return mail.NewWriter("https://api.example").Write(n.Mail("you@example.org"))
}

func (a *announcements) Progress(context.Context, notices.Announcement) (notices.Progress, error) {
	a.calls = append(a.calls, "progress")
	return notices.Progress{Recipients: 3}, a.failure
}

func (a *announcements) Announce(_ context.Context, actor string, n notices.Announcement) (notices.Progress, error) {
	a.calls = append(a.calls, actor+" announces "+n.ID)
	at := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	return notices.Progress{Recipients: 3, CreatedAt: &at}, a.failure
}

func (a *announcements) post(t *testing.T, body string) *httptest.ResponseRecorder {
	t.Helper()
	return httpapitest.Do(t, routes.API{Announcements: a}.Routes(), http.MethodPost, "/operator/v1/announcements", body)
}

func TestDryRunAnnouncesNothing(t *testing.T) {
	a := &announcements{}
	w := a.post(t, `{"id":"v2","kind":"api-change","subject":"Version 2","text":"It is here.","dryRun":true}`)
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), `"subject":"API change: Version 2"`)
	require.Contains(t, w.Body.String(), `https://api.example/account/notices`)
	require.Contains(t, w.Body.String(), `"recipients":3,"posted":0,"createdAt":null`)
	require.Equal(t, []string{"progress"}, a.calls)

	w = a.post(t, `{"id":"v2","kind":"api-change","subject":"Version 2","text":"It is here."}`)
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), `"createdAt":"2027-01-02T03:04:05Z"`)
	require.Equal(t, "ada announces v2", a.calls[1])
	require.Equal(t, http.StatusBadRequest, a.post(t, `{"id":"v2"}`).Code)
}

func TestFailures(t *testing.T) {
	for _, dry := range []string{"true", "false"} {
		httpapitest.RequireStatuses(t, dry, func(failure error) *httptest.ResponseRecorder {
			return (&announcements{failure: failure}).post(t, `{"id":"v2","kind":"terms","subject":"a","text":"b","dryRun":`+dry+`}`)
		})
	}
}
