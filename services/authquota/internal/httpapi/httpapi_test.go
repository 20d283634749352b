package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/testkit"
	"opportunity.internal/services/authquota/internal/testkit/sitekit"
)

func TestKeyOfUnknownTierIsNotResolved(t *testing.T) {
	s := sitekit.New(t)
	key := s.Issue("")
	require.NoError(t, s.Exec("UPDATE accounts SET tier = 'gold'").Error)
	response := s.Resolve(key.Key)
	response.RequireError(problem.InternalError)
	require.Equal(t, http.StatusInternalServerError, response.Status, "no limits, no call")
}

func TestDryRunAnnouncesNothing(t *testing.T) {
	s := sitekit.New(t)
	s.SignUp("ada@example.org")
	const path = "/operator/v1/announcements"
	w := s.Do(http.MethodPost, path,
		`{"id":"v2","kind":"api-change","subject":"Version 2","text":"It is here.","dryRun":true}`)
	require.Equal(t, http.StatusOK, w.Status, w.Body)
	require.Contains(t, w.Body, `"subject":"API change: Version 2"`)
	require.Contains(t, w.Body, `https://api.example/account/notices`)
	require.Contains(t, w.Body, `"recipients":1,"posted":0,"createdAt":null`)
	require.NotContains(t, s.Actions(t, testkit.Actor), "announcement.create")

	w = s.Do(http.MethodPost, path, `{"id":"v2","kind":"api-change","subject":"Version 2","text":"It is here."}`)
	require.Equal(t, http.StatusOK, w.Status, w.Body)
	require.Contains(t, w.Body, `"createdAt":"2026-11-20T10:00:00Z"`)
	s.Do(http.MethodPost, path, `{"id":"v2"}`).RequireError(problem.InvalidParameter)
}
