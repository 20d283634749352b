package web_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
)

func serve(t *testing.T, method, path string, header http.Header,
	handle func(*gin.Context) (web.Reply, error)) *httptest.ResponseRecorder {
	t.Helper()
	e := web.New(problem.Writer{})
	e.Match([]string{http.MethodGet, http.MethodHead}, "/things/:id", web.Handler(problem.Writer{}, handle))
	req := httptest.NewRequest(method, path, nil)
	if header != nil {
		req.Header = header
	}
	rec := httptest.NewRecorder()
	e.ServeHTTP(rec, req)
	return rec
}

func TestHandler(t *testing.T) {
	rec := serve(t, http.MethodGet, "/things/1", nil, func(*gin.Context) (web.Reply, error) {
		return web.Reply{JSON: map[string]string{"name": "a<b>&c"}}, nil
	})
	require.Equal(t, 200, rec.Code)
	require.Equal(t, "application/json", rec.Header().Get("Content-Type"))
	require.Equal(t, `{"name":"a<b>&c"}`, rec.Body.String())
}

func TestHandlerAlwaysCallsDone(t *testing.T) {
	for _, c := range []struct {
		method string
		header http.Header
		err    error
		status int
		body   string
	}{
		{http.MethodGet, nil, nil, 200, "body"},
		{http.MethodHead, nil, nil, 200, ""},
		{http.MethodGet, http.Header{"If-None-Match": {`W/"v1"`}}, nil, 304, ""},
		{http.MethodGet, nil, problem.New(problem.NotFound, "No."), 404,
			`{"error":{"code":"not_found","message":"No."},"documentation":"/docs/errors#not_found"}`},
	} {
		given := 0
		rec := serve(t, c.method, "/things/1", c.header, func(*gin.Context) (web.Reply, error) {
			return web.Reply{ETag: "v1", Body: []byte("body"), Done: func() { given++ }}, c.err
		})
		require.Equal(t, c.status, rec.Code)
		require.Equal(t, c.body, rec.Body.String())
		require.Equal(t, 1, given)
	}
}

func TestConditionalRequests(t *testing.T) {
	for header, status := range map[string]int{
		`W/"v1"`: 304, `"v1"`: 304, `"v0", W/"v1"`: 304, `*`: 304, `"v2"`: 200, `v1`: 200, ``: 200,
	} {
		rec := serve(t, http.MethodGet, "/things/1", http.Header{"If-None-Match": {header}},
			func(*gin.Context) (web.Reply, error) {
				return web.Reply{ETag: "v1", Body: []byte("{}")}, nil
			})
		require.Equal(t, status, rec.Code, header)
		require.Equal(t, `W/"v1"`, rec.Header().Get("ETag"))
		require.Equal(t, "private, no-cache", rec.Header().Get("Cache-Control"))
		require.Equal(t, "Authorization", rec.Header().Get("Vary"))
	}
}

func TestRouterErrorsHaveTheErrorBody(t *testing.T) {
	ok := func(*gin.Context) (web.Reply, error) { return web.Reply{JSON: 1}, nil }
	for _, c := range []struct {
		method, path string
		status       int
		code         string
	}{
		{http.MethodGet, "/things/1/", 404, "not_found"},
		{http.MethodGet, "//things/1", 404, "not_found"},
		{http.MethodGet, "/nothing", 404, "not_found"},
		{http.MethodPost, "/things/1", 405, "method_not_allowed"},
	} {
		rec := serve(t, c.method, c.path, nil, ok)
		require.Equal(t, c.status, rec.Code, c.path)
		require.Contains(t, rec.Body.String(), `"code":"`+c.code+`"`)
	}
	rec := serve(t, http.MethodPost, "/things/1", nil, ok)
	require.Equal(t, "GET, HEAD", rec.Header().Get("Allow"))
}

func TestPanicsAndUnknownErrorsAreNotDisclosed(t *testing.T) {
	for _, handle := range []func(*gin.Context) (web.Reply, error){
		func(*gin.Context) (web.Reply, error) { panic("secret") },
		func(*gin.Context) (web.Reply, error) { return web.Reply{}, errors.New("secret") },
		func(*gin.Context) (web.Reply, error) { return web.Reply{JSON: func() {}}, nil },
	} {
		rec := serve(t, http.MethodGet, "/things/1", nil, handle)
		require.Equal(t, 500, rec.Code)
		require.Contains(t, rec.Body.String(), "internal_error")
		require.NotContains(t, rec.Body.String(), "secret")
	}
}

func TestCallerIsThatOfEachRequest(t *testing.T) {
	free, developer := `{"tier":"free","pageSize":10,"history":false}`, `{"tier":"developer","pageSize":50,"history":true}`
	for _, header := range []string{free, free, developer, free, developer, developer,
		`{"tier":"","pageSize":10,"history":false}`, free, "", developer} {
		rec := serve(t, http.MethodGet, "/things/1", http.Header{api.CallerHeader: {header}},
			func(g *gin.Context) (web.Reply, error) { return web.JSON(web.Caller(g)) })
		if header == free || header == developer {
			require.Equal(t, header, rec.Body.String())
		} else {
			require.Equal(t, http.StatusInternalServerError, rec.Code, header)
		}
	}
}

func TestFailedStreamClosesConnection(t *testing.T) {
	stream := func(fail error) func(*gin.Context) (web.Reply, error) {
		return func(*gin.Context) (web.Reply, error) {
			return web.Reply{Type: "application/jsonl", Stream: func(w io.Writer) error {
				_, err := io.WriteString(w, "{}\n")
				return errors.Join(err, fail)
			}}, nil
		}
	}
	rec := serve(t, http.MethodGet, "/things/1", nil, stream(nil))
	require.Equal(t, "application/jsonl", rec.Header().Get("Content-Type"))
	require.Equal(t, "{}\n", rec.Body.String())
	require.PanicsWithValue(t, http.ErrAbortHandler, func() {
		serve(t, http.MethodGet, "/things/1", nil, stream(errors.New("half-way")))
	})
}

func TestActorIsAShortPrintableName(t *testing.T) {
	for name, status := range map[string]int{
		"ann": 200, "Zoë Tremblay": 200, "Team 👩\u200d💻": 200, "": 400, "\u200b": 400, "a\u202eb": 400,
		strings.Repeat("a", 201): 400, "a\tb": 400, "a\xff": 400,
	} {
		rec := serve(t, http.MethodGet, "/things/1", http.Header{api.ActorHeader: {name}},
			func(g *gin.Context) (web.Reply, error) { return web.JSON(web.Actor(g)) })
		require.Equal(t, status, rec.Code, "%q", name)
	}
}

// serveWithExpiredTimeouts serves handle on a server with read and write timeouts that expire at
// once.
func serveWithExpiredTimeouts(t *testing.T, handle func(*gin.Context) (web.Reply, error)) (url string) {
	t.Helper()
	e := web.New(problem.Writer{})
	e.POST("/", web.Handler(problem.Writer{}, handle))
	s := httptest.NewUnstartedServer(e)
	s.Config.ReadHeaderTimeout, s.Config.ReadTimeout, s.Config.WriteTimeout = time.Minute, time.Nanosecond, time.Nanosecond
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

func post(t *testing.T, url string, file io.Reader) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, file)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(b)
}

func TestFileHasMoreTimeThanOtherRequests(t *testing.T) {
	url := serveWithExpiredTimeouts(t, func(g *gin.Context) (web.Reply, error) {
		size := int64(0)
		err := web.File(g, 0, func(in io.Reader) (err error) {
			size, err = io.Copy(io.Discard, in)
			return err
		})
		return web.Reply{JSON: size}, errors.Join(err, g.Request.Context().Err())
	})
	status, body := post(t, url, io.LimitReader(endless{}, 1<<20)) // more than arrives together with the header
	require.Equal(t, http.StatusOK, status, body)
	require.Equal(t, "1048576", body)
}

func TestUnreadableFileIsRejected(t *testing.T) {
	for want, file := range map[string]io.Reader{
		"could not be read to its end": iotest.ErrReader(net.ErrClosed),
		"did not arrive in time":       iotest.ErrReader(os.ErrDeadlineExceeded),
		"at most 67108864 bytes":       io.LimitReader(endless{}, 64<<20+1),
	} {
		g, _ := gin.CreateTestContext(httptest.NewRecorder())
		g.Request = httptest.NewRequest(http.MethodPost, "/", file)
		err := web.File(g, 64<<20, func(in io.Reader) error { _, err := io.Copy(io.Discard, in); return err })
		require.Equal(t, problem.InvalidParameter, problem.Of(err).Code)
		require.Contains(t, problem.Of(err).Message, want)
	}
}

// An error that has nothing to do with the body, such as that of a database, is not the sender's
// fault.
func TestFileReturnsOtherErrorsUnchanged(t *testing.T) {
	g, _ := gin.CreateTestContext(httptest.NewRecorder())
	g.Request = httptest.NewRequest(http.MethodPost, "/", strings.NewReader("x"))
	failed := errors.New("no database")
	require.Equal(t, failed, web.File(g, 0, func(io.Reader) error { return failed }))
}

// endless is a file of zeros.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }
