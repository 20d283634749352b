package web_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
)

// slow serves a request that reports progress after each of three seconds, and returns the response.
func slow(t *testing.T, accept string, reply web.Reply, err error) (w *httptest.ResponseRecorder) {
	t.Helper()
	e := web.New(problem.Writer{})
	e.POST("/", web.Handler(problem.Writer{}, func(g *gin.Context) (web.Reply, error) {
		progress := web.Progress(g)
		for n := range int64(3) {
			time.Sleep(time.Second)
			progress(n+1, 3)
			progress(0, 0) // too early
		}
		return reply, err
	}))
	w = httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
	r.Header.Set("Accept", accept)
	synctest.Test(t, func(*testing.T) { e.ServeHTTP(w, r) })
	return w
}

func TestProgressIsSentToClientsThatAcceptIt(t *testing.T) {
	for _, c := range []struct {
		reply  web.Reply
		err    error
		status int
		body   string
	}{
		{web.Reply{JSON: []string{"done"}}, nil, 200, `["done"]`},
		{web.Reply{Status: 409, JSON: "conflict"}, nil, 409, `"conflict"`},
		{web.Reply{}, problem.Unavailable(nil), 503, `"service_unavailable"`},
	} {
		w := slow(t, "application/jsonl, application/json", c.reply, c.err)
		require.Equal(t, 200, w.Code)
		require.Equal(t, api.ProgressType, w.Header().Get("Content-Type"))
		var lines []api.ProgressLine
		for in := json.NewDecoder(w.Body); ; {
			var line api.ProgressLine
			if err := in.Decode(&line); err != nil {
				require.ErrorIs(t, err, io.EOF)
				break
			}
			lines = append(lines, line)
		}
		require.Equal(t, []api.ProgressLine{{Done: 1, Total: 3}, {Done: 2, Total: 3}, {Done: 3, Total: 3}}, lines[:3])
		require.Len(t, lines, 4)
		require.Equal(t, c.status, lines[3].Status)
		require.Contains(t, string(lines[3].Body), c.body)

		w = slow(t, "application/json", c.reply, c.err)
		require.Equal(t, c.status, w.Code)
		require.Contains(t, strings.TrimSpace(w.Body.String()), c.body)
	}
}
