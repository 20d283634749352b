package operator_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/cmd/opportunity/internal/operator"
	"opportunity.internal/pkg/api"
)

const token = "operator-token-that-nobody-may-see"

// admin is an admin listener that gives one answer and tells what it was asked.
func admin(t *testing.T, status int, answer string) (operator.Client, *strings.Builder) {
	t.Helper()
	asked := new(strings.Builder)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked.WriteString(r.Method + " " + r.RequestURI + " " + r.Header.Get(api.ActorHeader) + " " + string(body))
		if r.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	return operator.Client{URL: s.URL + "/", Token: token, Actor: "ann", HTTP: s.Client()}, asked
}

func TestIssueKey(t *testing.T) {
	c, asked := admin(t, http.StatusOK, `{"id":"key_1","key":"oda_live_x","account":"acc_1","tier":"free","expiresAt":"2027-01-01T00:00:00Z"}`)
	key, raw, err := c.IssueKey(t.Context(), operator.KeyRequest{Tier: api.Free, UseCase: "a test"})
	require.NoError(t, err)
	require.Equal(t, "oda_live_x", key.Key)
	require.Contains(t, string(raw), "key_1")
	require.Equal(t, `POST /operator/v1/keys ann {"tier":"free","useCase":"a test","test":false}`, asked.String())
}

// An id goes into the path as one segment, whatever it holds.
func TestIDsStayInTheirSegment(t *testing.T) {
	c, asked := admin(t, http.StatusOK, `{}`)
	_, err := c.RevokeKey(t.Context(), "../accounts/x", false)
	require.NoError(t, err)
	require.Contains(t, asked.String(), "POST /operator/v1/keys/..%2Faccounts%2Fx/revoke")
}

func TestRefusals(t *testing.T) {
	c, _ := admin(t, http.StatusNotFound, `{"error":{"code":"not_found","message":"There is no key with this id."},"documentation":"http://x/"}`)
	_, err := c.RevokeKey(t.Context(), "key_1", true)
	var refused *operator.Refused
	require.ErrorAs(t, err, &refused)
	require.Equal(t, operator.Refused{Status: 404, Code: "not_found", Reason: "There is no key with this id."}, *refused)

	c, _ = admin(t, http.StatusBadGateway, `<html>`)
	_, _, err = c.Append(t.Context(), strings.NewReader("x"))
	require.ErrorContains(t, err, "502")

	c, _ = admin(t, http.StatusOK, `<html>`)
	_, _, err = c.AccountList(t.Context(), "", operator.Page{})
	require.ErrorContains(t, err, "does not answer as an admin listener")

	c.Token = "wrong"
	_, _, err = c.AccountList(t.Context(), "", operator.Page{})
	require.ErrorAs(t, err, &refused)
	require.NotContains(t, err.Error(), token)
}
