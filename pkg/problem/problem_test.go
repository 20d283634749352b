package problem_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
)

// Codes and statuses must not change within v1, because programs depend on them.
func TestCodesAndStatusesDoNotChange(t *testing.T) {
	want := map[problem.Code]int{
		"invalid_parameter": 400, "unknown_parameter": 400, "duplicate_parameter": 400, "body_not_allowed": 400,
		"missing_api_key": 401, "invalid_api_key": 401, "expired_api_key": 401, "revoked_api_key": 401,
		"subscription_required": 402, "account_suspended": 403, "not_found": 404, "method_not_allowed": 405,
		"cursor_expired":       410,
		"minute_limit_reached": 429, "daily_limit_reached": 429, "service_capacity_reached": 429,
		"service_unavailable": 503, "internal_error": 500,
	}
	got := map[problem.Code]int{}
	for _, e := range problem.Table {
		got[e.Code] = e.Code.Status()
		require.NotEmpty(t, e.Meaning)
		require.NotEmpty(t, e.Remedy)
	}
	require.Equal(t, want, got)
}

func TestWrite(t *testing.T) {
	for _, c := range []struct {
		name    string
		err     error
		status  int
		code    string
		headers map[string]string
		logged  bool
	}{
		{"a refusal", problem.New(problem.InvalidParameter, "Parameter page must be an integer."), 400,
			"invalid_parameter",
			map[string]string{"Content-Type": "application/json", "Cache-Control": "no-store", "Retry-After": ""},
			false},
		{"a wrapped problem", fmt.Errorf("while listing: %w", problem.New(problem.NotFound, "No such record.")), 404,
			"not_found", nil, false},
		{"a missing key", problem.New(problem.MissingAPIKey, "No key."), 401, "missing_api_key",
			map[string]string{"WWW-Authenticate": "Bearer"}, false},
		{"a wait is rounded up", problem.New(problem.MinuteLimitReached, "Wait.").Retry(1001 * time.Millisecond), 429,
			"minute_limit_reached",
			map[string]string{"Retry-After": "2"}, false},
		{"an outage", problem.Unavailable(errors.New("dial tcp 10.0.0.7: refused")), 503, "service_unavailable",
			map[string]string{"Retry-After": "1"}, true},
		{"another error is not disclosed", errors.New("pq: password authentication failed for user admin"), 500,
			"internal_error", nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			w := problem.Writer{BaseURL: "https://api.example", Log: slog.New(slog.NewJSONHandler(&log, nil))}
			rec := httptest.NewRecorder()
			rec.Header().Set("ETag", `W/"of another response"`)
			w.Write(rec, httptest.NewRequest(http.MethodGet, "/", nil), c.err)

			require.Equal(t, c.status, rec.Code)
			var body api.Error
			decoder := json.NewDecoder(rec.Body)
			decoder.DisallowUnknownFields()
			require.NoError(t, decoder.Decode(&body))
			require.Equal(t, c.code, body.Error.Code)
			require.Equal(t, "https://api.example/docs/errors#"+c.code, body.Documentation)
			require.Empty(t, rec.Header().Get("ETag"))
			for name, value := range c.headers {
				require.Equal(t, value, rec.Header().Get(name), name)
			}
			require.Equal(t, c.logged, log.Len() > 0)
			for _, secret := range []string{"password", "10.0.0.7"} {
				require.NotContains(t, body.Error.Message, secret)
			}
		})
	}
}

func TestOutagesThatAreReportedAreLoggedForDebuggingOnly(t *testing.T) {
	reported := problem.Unavailable(errors.New("set back"))
	reported.Reported = true
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		want string
	}{
		"outage":              {t.Context(), problem.Unavailable(errors.New("refused")), "level=ERROR"},
		"reported outage":     {t.Context(), fmt.Errorf("reading: %w", reported), "level=DEBUG"},
		"disconnected caller": {canceled, errors.New("canceled"), "level=DEBUG"},
		"error of the caller": {t.Context(), problem.New(problem.NotFound, "There is no such record."), ""},
	} {
		var log strings.Builder
		w := problem.Writer{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
		w.Report(c.ctx, c.err)
		require.Contains(t, log.String(), c.want, name)
		require.Equal(t, c.want == "", log.String() == "", name)
	}
}
