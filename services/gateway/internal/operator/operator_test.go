package operator

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
)

// conn records the deadlines that are set.
type conn struct {
	*httptest.ResponseRecorder
	read, write []time.Time
}

func (c *conn) SetReadDeadline(d time.Time) error  { c.read = append(c.read, d); return nil }
func (c *conn) SetWriteDeadline(d time.Time) error { c.write = append(c.write, d); return nil }

// fileReader is a service that reads the request body to the end or the first error.
type fileReader struct{}

func (fileReader) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return nil, err
		}
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}, nil
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func send(t *testing.T, body io.Reader) *conn {
	t.Helper()
	token := strings.Repeat("t", 32)
	tokens, err := ParseTokens([]string{token})
	require.NoError(t, err)
	catalog := &url.URL{Scheme: "http", Host: "catalog.test"}
	h := Handler(tokens, Owners{Catalog: catalog}, "internal", fileReader{}, nil, problem.Writer{Log: slog.New(slog.DiscardHandler)})
	r := httptest.NewRequest(http.MethodPost, Prefix+"listings/import", body)
	r.Header.Set("Authorization", "Bearer "+token)
	c := &conn{ResponseRecorder: httptest.NewRecorder()}
	h.ServeHTTP(c, r)
	return c
}

// A stalled or oversized upload is an error of the client, not an outage.
func TestUploadErrors(t *testing.T) {
	for name, c := range map[string]struct {
		body    io.Reader
		status  int
		message string
	}{
		"stalled":   {io.MultiReader(strings.NewReader("half"), failing{os.ErrDeadlineExceeded}), 400, "The file did not arrive in time."},
		"too large": {io.LimitReader(zeros{}, api.MaxFile+1), 400, "The file is larger than 64 MiB; send it in parts."},
		"cut off":   {io.MultiReader(strings.NewReader("half"), failing{errors.New("gone")}), 503, "The service is temporarily unavailable. Retry shortly."},
		"whole":     {io.MultiReader(strings.NewReader("all")), 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := send(t, c.body)
			require.Equal(t, c.status, got.Code)
			if c.status == http.StatusOK {
				return
			}
			var e api.Error
			require.NoError(t, json.Unmarshal(got.Body.Bytes(), &e))
			require.Equal(t, c.message, e.Error.Message)
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// The service has its full time after a slow upload: the read deadline moves once the file is read, because passing it would end the
// request.
func TestUploadExtendsReadDeadline(t *testing.T) {
	whole := send(t, strings.NewReader("all"))
	require.Len(t, whole.write, 1)
	respondBy := whole.write[0]
	require.Equal(t, []time.Time{respondBy.Add(-api.OperatorTimeout), respondBy}, whole.read)
	stalled := send(t, io.MultiReader(strings.NewReader("half"), failing{os.ErrDeadlineExceeded}))
	require.Equal(t, []time.Time{stalled.write[0].Add(-api.OperatorTimeout)}, stalled.read)
	export := send(t, http.NoBody)
	require.Equal(t, export.write, export.read)
}
