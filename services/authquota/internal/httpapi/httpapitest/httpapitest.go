// Package httpapitest sends requests to the routes of a feature in tests.
package httpapitest

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	routes "opportunity.internal/services/authquota/internal/api"
)

// Do sends a request with the actor ada.
func Do(t testing.TB, list []routes.Route, method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	writer := problem.Writer{BaseURL: "https://api.example", Log: slog.New(slog.DiscardHandler)}
	handler := routes.Handler(writer, http.NotFoundHandler(), list)
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set(api.ActorHeader, "ada")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

// RequireStatuses requires that a failing dependency is a 500, that an unavailable one is a 503, and that neither response
// contains the error's text. do sends a request while a dependency returns the error.
func RequireStatuses(t testing.TB, name string, do func(failure error) *httptest.ResponseRecorder) {
	t.Helper()
	const text = "db.internal refused"
	for status, failure := range map[int]error{
		http.StatusInternalServerError: errors.New(text),
		http.StatusServiceUnavailable:  problem.Unavailable(errors.New(text)),
	} {
		response := do(failure)
		require.Equal(t, status, response.Code, name)
		require.NotContains(t, response.Body.String(), text, name)
	}
}
