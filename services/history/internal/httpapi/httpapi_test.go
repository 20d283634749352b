package httpapi_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/history/internal/httpapi"
	"opportunity.internal/services/history/internal/store"
)

var schema = servicetest.NewSchema(store.Migrations)

// testAPI is the API on a new store with one public listing, "a".
type testAPI struct{ http.Handler }

func start(t *testing.T) *testAPI {
	t.Helper()
	db := servicetest.OpenDatabase(t, schema.SQLite(t))
	require.NoError(t, store.NewListings(db).Save(t.Context(), feed.Cursor{},
		[]api.ListingState{{ID: "a", Published: true, Sequence: 1}}, feed.Cursor{}))
	problems := problem.Writer{BaseURL: "https://api.example", Log: slog.New(slog.DiscardHandler)}
	engine := web.New(problems)
	events := store.New(db)
	httpapi.API{
		Store: events, Summaries: feed.Source[api.EncodedSummary]{
			Verify:  func(context.Context, string, int64) (string, bool, error) { return "", false, nil },
			Changes: events.Summaries, Moved: func() <-chan struct{} { return nil },
		},
		CatchUp: func(context.Context) error { return nil }, PublicURL: "https://api.example", Now: time.Now,
	}.Routes(engine, problems, http.NotFoundHandler())
	return &testAPI{engine}
}

// do sends a request of the operator "ada", who may read everything.
func (a *testAPI) do(t *testing.T, method, path string, body io.Reader) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	a.ServeHTTP(w, request(t, method, path, body))
	return w
}

func request(t *testing.T, method, url string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	require.NoError(t, err)
	r.Header.Set(api.CallerHeader, `{"tier":"commercial","pageSize":100,"history":true}`)
	r.Header.Set(api.ActorHeader, "ada")
	return r
}

func TestRoutesHaveRules(t *testing.T) {
	engine := web.New(problem.Writer{})
	httpapi.API{}.Routes(engine, problem.Writer{}, http.NotFoundHandler())
	servicetest.RequireRules(t, peer.History, engine.Routes(),
		func(r gin.RouteInfo) (string, string) { return r.Method, r.Path })
}

// closed returns the line of a file that says that a listing is closed.
func closed(slug string) string {
	return `{"slug":"` + slug + `","checkedAt":"2026-01-01T00:00:00Z","checkType":"review","outcome":"closed"}` + "\n"
}

func TestFileMayHaveAnySize(t *testing.T) {
	w := start(t).do(t, http.MethodPost, "/operator/v1/events/append", strings.NewReader(strings.Repeat(" ", 100<<20)))
	require.Equal(t, http.StatusOK, w.Code, w.Body)
}

func TestReportNamesFirstInvalidLines(t *testing.T) {
	a := start(t)
	report := func(file string) (r api.AppendReport) {
		t.Helper()
		w := a.do(t, http.MethodPost, "/operator/v1/events/append", strings.NewReader(file))
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &r))
		return r
	}
	unlisted := closed("unlisted")
	for name, file := range map[string]string{
		"wrong": strings.Repeat("{x\n", 300), "unknown": strings.Repeat(unlisted, 300),
		"both":          strings.Repeat("{x\n"+unlisted, 150),
		"unknown first": strings.Repeat(unlisted, 100) + strings.Repeat("{x\n", 200),
	} {
		r := report(file)
		require.False(t, r.Applied, name)
		require.Len(t, r.Rejected, api.MaxReported, name)
		require.Equal(t, 100, r.Omitted, name)
		for i, line := range r.Rejected {
			require.Equal(t, i+1, line.Line, name)
			require.Len(t, line.Problems, 1, name)
		}
	}
	require.Equal(t, api.AppendReport{Applied: true, Appended: 1, Rejected: []api.RejectedLine{}}, report(closed("a")))
}

func TestShutdownEndsLongPolls(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	a := start(t)
	arrived := make(chan struct{})
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	group := server.NewGroup(ctx, server.Config{Drain: time.Minute}, slog.New(slog.DiscardHandler), nil)
	group.HTTP("service", ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		a.ServeHTTP(w, r)
	}))

	responses := make(chan *http.Response, 1)
	poll := request(t, http.MethodGet, "http://"+ln.Addr().String()+"/internal/v1/summaries?wait=25s", http.NoBody)
	go func() {
		defer close(responses)
		if resp, err := http.DefaultClient.Do(poll); err == nil { //nolint:bodyclose // by the receiver
			responses <- resp
		}
	}()
	<-arrived
	stop()
	resp, ok := <-responses
	require.True(t, ok, "the poll must get a response")
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, `{"changes":[]}`, string(body))
	require.NoError(t, group.Wait())
}
