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

	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
)

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

// post sends a file.
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
