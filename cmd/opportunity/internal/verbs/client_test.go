package verbs_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/cmd/opportunity/internal/verbs"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
)

const token = "operator-token-that-stays-secret"

// admin starts an admin listener that returns the same response to each request, and records the
// requests in sent.
func admin(t *testing.T, status int, response string) (client adminapi.Client, sent *strings.Builder) {
	t.Helper()
	sent = new(strings.Builder)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent.WriteString(r.Method + " " + r.RequestURI + " " + r.Header.Get(api.ActorHeader) + " " + string(body))
		if r.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, response)
	}))
	t.Cleanup(s.Close)
	return adminapi.Client{URL: s.URL + "/", Token: token, Actor: "ann", HTTP: s.Client()}, sent
}

func TestConnectionErrorsSayWhatToDo(t *testing.T) {
	private := httptest.NewTLSServer(http.NotFoundHandler())
	private.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(private.Close)
	page := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(page.Close)
	cut := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(cut.Close)
	public, _ := admin(t, http.StatusNotFound,
		`{"error":{"path":"endpoint","code":"not_found","message":"There is nothing at this address."}}`)

	broken, _ := admin(t, http.StatusBadGateway, "<html>")

	const another = "Set OPPORTUNITY_ADMIN_URL to use another address."
	for _, c := range []struct{ url, want, code string }{
		{nowhere, `cannot reach http://127.0.0.1:1: connection refused. Is "opportunity up" running? ` + another,
			"unreachable"},
		{private.URL, "cannot trust " + private.URL + ": x509: certificate signed by unknown authority",
			"untrusted_certificate"},
		{strings.Replace(page.URL, "http:", "https:", 1), "does not speak HTTPS: use an http:// URL. " + another,
			"unexpected_response"},
		{page.URL, page.URL + " is not an admin listener: it returned status 404 (text/plain). Set OPPORTUNITY_ADMIN_URL",
			"unexpected_response"},
		{public.URL, "is not an admin listener, or is one of another version. " + another, "not_found"},
		{broken.URL, "is not an admin listener: it returned status 502", "unexpected_response"},
		{cut.URL, "lost the connection to " + cut.URL + ": EOF", "unreachable"},
	} {
		_, _, err := verb(t, c.url, "", "keys", "list")
		require.ErrorContains(t, err, c.want)
		require.Equal(t, c.code, adminapi.Code(err))
		require.NotContains(t, err.Error(), token)
	}

	expired, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	_, _, err := adminapi.ListAccounts.Call(expired, public, adminapi.Input{})
	require.ErrorContains(t, err, "did not respond in time. Check the address and the network. "+another)
	require.Equal(t, "timeout", adminapi.Code(err))
}

func TestRejectedAndMissingTokensAreNamed(t *testing.T) {
	c, _ := admin(t, http.StatusUnauthorized,
		`{"error":{"code":"invalid_api_key","message":"This operator token is not valid."}}`)
	for file, want := range map[string]string{"": "in OPPORTUNITY_OPERATOR_TOKEN: set it to one of the gateway's",
		"dir/operator-token": "in dir/operator-token: set OPPORTUNITY_OPERATOR_TOKEN, or use --data-dir"} {
		c.TokenFile = file
		_, _, err := adminapi.ListAccounts.Call(t.Context(), c, adminapi.Input{})
		require.ErrorContains(t, err, "rejected the operator token "+want)
		require.Equal(t, "invalid_api_key", adminapi.Code(err))
	}
	t.Setenv("OPPORTUNITY_OPERATOR_TOKEN", "")
	_, err := adminapi.NewClient(nowhere, t.TempDir())
	require.ErrorContains(t, err, "no operator token: OPPORTUNITY_OPERATOR_TOKEN is not set, and ")
	require.Equal(t, "no_operator_token", adminapi.Code(err))
}

func TestErrorsNameArgumentsAndFlags(t *testing.T) {
	const key, account = "There is no key with this id.", "There is no account with this id."
	for _, c := range []struct {
		line, path, message, want string
		usage                     bool
	}{
		{"keys revoke k", "key", key, `unknown key "k": see "opportunity keys list"`, false},
		{"keys approve r", "request", "There is no request.", `unknown request "r": see "opportunity keys requests"`, false},
		{"accounts show a", "account", account, `unknown account "a": see "opportunity accounts list"`, false},
		{"keys issue --tier free --use-case x --account a", "account", account, `unknown account "a"`, false},
		{"history show x", "listing", "There is no listing with this id.", `unknown listing "x"`, false},
		{"keys issue --tier free --use-case x --expires-in 400d", "expiresIn", "must be at most 365d",
			`--expires-in must be at most 365d`, true},
		{"history show x --at y", "at", "must be a day", `--at must be a day`, true},
		{"keys revoke k", "", "Something else.", "Something else.", false},
		{"listings list --search x", "text", "is too long", "--search is too long", true},
		{"announce v2 --kind terms --subject V2 --text - --yes", "text", "is too long", "--text is too long", true},
		{"keys issue --tier free --use-case x", "expiresIn", "must be at most 365d", "--expires-in must be at most 365d",
			false},
	} {
		status, code := http.StatusNotFound, problem.NotFound
		if strings.HasPrefix(c.want, "--") {
			status, code = http.StatusBadRequest, problem.InvalidParameter
		}
		answer, _ := json.Marshal(api.OperatorError{Error: api.Problem{Path: c.path, Code: string(code), Message: c.message}})
		client, _ := admin(t, status, string(answer))
		root, _, _ := newRoot(t, client.URL, strings.NewReader("{}"), strings.Fields(c.line)...)
		cmd, err := root.ExecuteC()
		err = verbs.Explain(cmd, cmd.Flags().Args(), err)
		require.ErrorContains(t, err, c.want)
		require.Equal(t, c.usage, errors.As(err, new(flags.UsageError)), c.line)
	}
}
