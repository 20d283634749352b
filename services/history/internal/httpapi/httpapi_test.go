package httpapi_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/history/internal/event"
	"opportunity.internal/services/history/internal/httpapi"
)

const token = "a-token-of-at-least-thirty-two-characters"

// fakeStore fails with err, or has nothing; it tells asked of every look for summaries.
type fakeStore struct {
	err   error
	asked chan struct{}
}

func (s fakeStore) History(context.Context, string, int, int) (event.Page, bool, error) {
	return event.Page{}, s.err == nil, s.err
}

func (s fakeStore) Summaries(context.Context, int64, int) ([]api.Summary, error) {
	select {
	case s.asked <- struct{}{}:
	default:
	}
	return []api.Summary{}, s.err
}
func (s fakeStore) UnknownListings(context.Context, []string) (map[string]bool, error) {
	return nil, s.err
}

func (s fakeStore) Append(context.Context, string, time.Time, []api.VerificationEvent) (int, int, error) {
	return 0, 0, s.err
}

func handler(s fakeStore, log io.Writer) http.Handler {
	refusals := problem.Writer{BaseURL: "https://api.example", Log: slog.New(slog.NewTextHandler(log, nil))}
	engine := web.New(refusals)
	httpapi.API{Store: s, PublicURL: "https://api.example", Now: time.Now}.
		Routes(engine, refusals, peer.Tokens{Values: []string{token}}, http.NotFoundHandler())
	return engine
}

func request(t *testing.T, method, url string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set(api.CallerHeader, `{"tier":"commercial","pageSize":100,"history":true}`)
	r.Header.Set(api.ActorHeader, "ada")
	return r
}

func TestAFailureIsTheLogsMatter(t *testing.T) {
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

// spaces is a file of n spaces that costs no memory.
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

func TestAFileThatIsTooLargeIsRefused(t *testing.T) {
	for size, status := range map[int]int{64 << 20: http.StatusOK, 64<<20 + 1: http.StatusBadRequest} {
		w := httptest.NewRecorder()
		handler(fakeStore{}, io.Discard).ServeHTTP(w, request(t, http.MethodPost, "/operator/v1/events/append", &spaces{size}))
		require.Equal(t, status, w.Code, w.Body)
	}
}

func TestAShutdownEndsLongPolls(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	s := fakeStore{asked: make(chan struct{}, 1)}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	group := server.NewGroup(ctx, server.Config{Drain: time.Minute}, slog.New(slog.DiscardHandler), nil)
	group.HTTP("service", ln, handler(s, io.Discard))

	answered := make(chan *http.Response, 1)
	poll := request(t, http.MethodGet, "http://"+ln.Addr().String()+"/internal/v1/summaries?wait=25s", http.NoBody)
	go func() {
		defer close(answered)
		if resp, err := http.DefaultClient.Do(poll); err == nil { //nolint:bodyclose // by the receiver
			answered <- resp
		}
	}()
	<-s.asked
	stop()
	resp, ok := <-answered
	require.True(t, ok, "the poll is answered, not cut off")
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, `{"summaries":[]}`, string(body))
	require.NoError(t, group.Wait())
}
