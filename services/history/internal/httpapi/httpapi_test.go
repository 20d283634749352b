package httpapi_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/eventfile"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/service/routetest"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/history/internal/event"
	"opportunity.internal/services/history/internal/httpapi"
)

// fakeStore is an empty store.
type fakeStore struct {
	err     error           // returned by every method
	polled  chan struct{}   // receives on every call of Summaries
	unknown map[string]bool // result of UnknownListings
}

func (s fakeStore) History(context.Context, string, int, int) (event.Page, bool, error) {
	return event.Page{}, s.err == nil, s.err
}

func (s fakeStore) Summaries(context.Context, int64, int) ([]api.EncodedSummary, error) {
	select {
	case s.polled <- struct{}{}:
	default:
	}
	return []api.EncodedSummary{}, s.err
}

func (s fakeStore) UnknownListings(context.Context, []string) (map[string]bool, error) {
	return s.unknown, s.err
}

func (s fakeStore) Known(context.Context, string, time.Time) ([]event.Record, api.Summary, error) {
	return nil, api.Summary{}, s.err
}

func (s fakeStore) RecordHistory(context.Context, string, string) ([]event.Record, api.Summary, error) {
	return nil, api.Summary{}, s.err
}

func (s fakeStore) Review(context.Context, time.Time, event.Proposal) (event.Reviewed, error) {
	return event.Reviewed{}, s.err
}

func (s fakeStore) Readings(context.Context, []api.Quote) ([]api.QuoteReading, error) {
	return nil, s.err
}

func (s fakeStore) Suggestions(context.Context, string, []api.Quote) ([]api.Quote, error) {
	return nil, s.err
}

func (s fakeStore) PageTexts(context.Context, string) (api.PageTexts, error) {
	return api.PageTexts{}, s.err
}

func (s fakeStore) ReadingMarks(context.Context) (api.ReadingMarks, error) {
	return api.ReadingMarks{}, s.err
}

func (s fakeStore) OpinionRequests(context.Context, string) ([]api.OpinionRequest, error) {
	return nil, s.err
}

func (s fakeStore) Opinion(context.Context, string) (*api.SecondOpinion, error) { return nil, s.err }

func (s fakeStore) ReviewsSince(context.Context, time.Time) (map[string]int, error) {
	return nil, s.err
}

func (s fakeStore) Unpublished(context.Context) ([]string, error) { return nil, s.err }

func (s fakeStore) Acts(context.Context, event.ActFilter) ([]event.Record, error) { return nil, s.err }

func (s fakeStore) Append(_ context.Context, _ string, _ time.Time, lines func(func(eventfile.Line) error) error) (int, int, error) {
	err := lines(func(eventfile.Line) error { return nil })
	return 0, 0, cmp.Or(err, s.err)
}

type fakeCatalog struct{}

func (fakeCatalog) CatchUp(context.Context) error { return nil }

func handler(s fakeStore, log io.Writer) http.Handler {
	problems := problem.Writer{BaseURL: "https://api.example", Log: slog.New(slog.NewTextHandler(log, nil))}
	engine := web.New(problems)
	httpapi.API{
		Store: s, Catalog: fakeCatalog{}, PublicURL: "https://api.example", Now: time.Now,
	}.
		Routes(engine, problems, http.NotFoundHandler())
	return engine
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
	routetest.RequireRules(t, peer.History, engine.Routes())
}

func TestInternalErrorIsLoggedAndNotReturned(t *testing.T) {
	var log bytes.Buffer
	h := handler(fakeStore{err: errors.New("relation secret_table does not exist")}, &log)
	for method, path := range map[string]string{
		http.MethodGet:  "/api/v1/opportunities/a/history",
		http.MethodPost: "/operator/v1/events/append",
	} {
		log.Reset()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request(t, method, path, http.NoBody))
		require.Equal(t, http.StatusInternalServerError, w.Code)
		require.Contains(t, w.Body.String(), `"internal_error"`)
		require.NotContains(t, w.Body.String(), "secret_table")
		require.Contains(t, log.String(), "secret_table")
	}
}

// spaces reads as n spaces.
type spaces struct{ n int }

func (s *spaces) Read(b []byte) (int, error) {
	if s.n == 0 {
		return 0, io.EOF
	}
	b = b[:min(len(b), s.n)]
	for i := range b {
		b[i] = ' '
	}
	s.n -= len(b)
	return len(b), nil
}

func TestFileMayHaveAnySize(t *testing.T) {
	w := httptest.NewRecorder()
	handler(fakeStore{}, io.Discard).ServeHTTP(w, request(t, http.MethodPost, "/operator/v1/events/append", &spaces{100 << 20}))
	require.Equal(t, http.StatusOK, w.Code, w.Body)
}

// deadlines records the deadlines that a handler sets on its connection.
type deadlines struct {
	*httptest.ResponseRecorder
	read, write time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error  { d.read = t; return nil }
func (d *deadlines) SetWriteDeadline(t time.Time) error { d.write = t; return nil }

func TestAppendExtendsRequestDeadlines(t *testing.T) {
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	handler(fakeStore{}, io.Discard).ServeHTTP(w, request(t, http.MethodPost, "/operator/v1/events/append", http.NoBody))
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.NotZero(t, w.read)
	require.NotZero(t, w.write)
}

func TestReportNamesFirstInvalidLines(t *testing.T) {
	report := func(file string) (r api.AppendReport) {
		t.Helper()
		w := httptest.NewRecorder()
		h := handler(fakeStore{unknown: map[string]bool{"unlisted": true}}, io.Discard)
		h.ServeHTTP(w, request(t, http.MethodPost, "/operator/v1/events/append", strings.NewReader(file)))
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &r))
		return r
	}
	const unlisted = `{"slug":"unlisted","checkedAt":"2026-01-01T00:00:00Z","checkType":"review","outcome":"closed"}` + "\n"
	for name, file := range map[string]string{
		"wrong": strings.Repeat("x\n", 300), "unknown": strings.Repeat(unlisted, 300), "both": strings.Repeat("x\n"+unlisted, 150),
		"unknown first": strings.Repeat(unlisted, 100) + strings.Repeat("x\n", 200),
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
	require.Equal(t, api.AppendReport{Applied: true, Rejected: []api.RejectedLine{}}, report(strings.ReplaceAll(unlisted, "unlisted", "listed")))
}

func TestCheckAheadOfClockIsRecordedWhenClockReachesIt(t *testing.T) {
	ahead := time.Now().Add(50 * time.Millisecond)
	line := `{"slug":"a","checkedAt":"` + ahead.UTC().Format(time.RFC3339Nano) + `","checkType":"review","outcome":"closed"}`
	w := httptest.NewRecorder()
	handler(fakeStore{}, io.Discard).ServeHTTP(w, request(t, http.MethodPost, "/operator/v1/events/append", strings.NewReader(line)))
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.False(t, time.Now().Before(ahead.Truncate(time.Microsecond)))
}

func TestShutdownEndsLongPolls(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	s := fakeStore{polled: make(chan struct{}, 1)}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	group := server.NewGroup(ctx, server.Config{Drain: time.Minute}, slog.New(slog.DiscardHandler), nil)
	group.HTTP("service", ln, handler(s, io.Discard))

	responses := make(chan *http.Response, 1)
	poll := request(t, http.MethodGet, "http://"+ln.Addr().String()+"/internal/v1/summaries?wait=25s", http.NoBody)
	go func() {
		defer close(responses)
		if resp, err := http.DefaultClient.Do(poll); err == nil { //nolint:bodyclose // by the receiver
			responses <- resp
		}
	}()
	<-s.polled
	stop()
	resp, ok := <-responses
	require.True(t, ok, "the poll must get a response")
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, `{"rules":2,"summaries":[]}`, string(body))
	require.NoError(t, group.Wait())
}
