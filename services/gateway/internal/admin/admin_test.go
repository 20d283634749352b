package admin

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
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/gateway/internal/proxy"
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
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func send(t *testing.T, path string, body io.Reader) *conn {
	t.Helper()
	return sendTo(t, fileReader{}, slog.New(slog.DiscardHandler), path, body)
}

// sendTo sends a request of an operator to a service.
func sendTo(t *testing.T, service http.RoundTripper, log *slog.Logger, path string, body io.Reader) *conn {
	t.Helper()
	token := strings.Repeat("t", 32)
	tokens, err := ParseTokens([]string{token})
	require.NoError(t, err)
	catalog := proxy.New(peer.Catalog, &url.URL{Scheme: "http", Host: "catalog.test"}, "internal", service)
	h := Handler(tokens, Owners{peer.Catalog: catalog}, nil, problem.Writer{Log: log})
	r := httptest.NewRequest(http.MethodPost, Prefix+path, body)
	r.Header.Set("Authorization", "Bearer "+token)
	c := &conn{ResponseRecorder: httptest.NewRecorder()}
	h.ServeHTTP(c, r)
	return c
}

const file, other = "listings/import", "listings/publish"

// A stalled or oversized upload is an error of the client, not an outage.
func TestUploadErrors(t *testing.T) {
	for name, c := range map[string]struct {
		path    string
		body    io.Reader
		status  int
		message string
	}{
		"stalled": {file, io.MultiReader(strings.NewReader("half"), failing{os.ErrDeadlineExceeded}), 400,
			"The file did not arrive in time."},
		"too large": {other, io.LimitReader(zeros{}, api.MaxFile+1), 400,
			"The file is larger than 64 MiB; send it in parts."},
		"cut off": {file, io.MultiReader(strings.NewReader("half"), failing{errors.New("gone")}), 503,
			"The service is temporarily unavailable. Retry shortly."},
		"large": {file, io.LimitReader(zeros{}, 2*api.MaxFile), 200, ""},
		"whole": {other, strings.NewReader("all"), 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := send(t, c.path, c.body)
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

// The service has its full time after a slow upload: the read deadline moves once the file is read,
// because passing it would end the request.
func TestServiceHasItsTimeAfterAnUpload(t *testing.T) {
	for path, respond := range map[string]time.Duration{file: api.FileTimeout + time.Minute, other: api.OperatorTimeout} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			whole := send(t, path, slow{strings.NewReader("some"), time.Second})
			read := begun.Add(2 * time.Second) // with the end of the body
			require.Equal(t, read.Add(respond), whole.read[len(whole.read)-1])
			require.Equal(t, read.Add(respond), whole.write[len(whole.write)-1])
		})
	}
	export := send(t, other, http.NoBody)
	require.Equal(t, export.write, export.read)
}

// An upload may take any time, but each block has only api.UploadStall.
func TestSlowUploadIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		steady := send(t, file, slow{io.LimitReader(zeros{}, 3*api.UploadBlock), 6 * time.Second}) // 32 KiB at once
		require.Equal(t, 200, steady.Code)
		dripping := send(t, file, slow{iotest.OneByteReader(strings.NewReader("abcd")), 4 * time.Second})
		for _, at := range dripping.read[1:4] {
			require.Equal(t, dripping.read[1], at, "one block, one deadline")
		}
		require.True(t, steady.read[len(steady.read)-2].After(begun.Add(2*api.UploadStall)))
	})
}

// slow waits before each read.
type slow struct {
	io.Reader
	wait time.Duration
}

func (s slow) Read(p []byte) (int, error) {
	time.Sleep(s.wait)
	return s.Reader.Read(p)
}

// fixedResponse is a service that responds to every request in the same way.
type fixedResponse struct {
	status int
	body   string
}

func (f fixedResponse) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: f.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(f.body)),
		Request: r}, nil
}

// A service that rejects the gateway is a fault of the installation: the operator's token is valid,
// and the record may exist.
func TestRejectionOfTheGatewayIsNotOneOfTheOperator(t *testing.T) {
	const tokens = "The gateway cannot call catalog: the token of gateway is rejected: compare catalog:... in " +
		"OPPORTUNITY_PEER_TOKENS of gateway " +
		"with gateway:... in OPPORTUNITY_CALLER_TOKENS of catalog."
	const release = "The gateway cannot call catalog: it does not serve /operator/v1/listings/publish: " +
		"compare its release and its address in the settings of the gateway."
	for name, c := range map[string]struct {
		service fixedResponse
		status  int
		message string
	}{
		"unknown token": {fixedResponse{401,
			`{"error":{"code":"invalid_api_key","message":"Missing or unknown token of a service."}}`}, 503, tokens},
		"token of another": {fixedResponse{403,
			`{"error":{"code":"forbidden","message":"The service billing may not call /operator/v1/ of catalog."}}`}, 503,
			tokens},
		"older release": {fixedResponse{404,
			`{"error":{"path":"endpoint","code":"not_found","message":"There is nothing."}}`}, 503, release},
		"another server": {fixedResponse{404, "<h1>Not found</h1>"}, 503, release},
		"record that is gone": {fixedResponse{404, `{"error":{"code":"not_found","message":"There is no listing x."}}`}, 404,
			"There is no listing x."},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			got := sendTo(t, c.service, slog.New(slog.NewTextHandler(&log, nil)), other, http.NoBody)
			require.Equal(t, c.status, got.Code)
			var e api.Error
			require.NoError(t, json.Unmarshal(got.Body.Bytes(), &e))
			require.Equal(t, c.message, e.Error.Message)
			require.Equal(t, c.status == http.StatusServiceUnavailable, strings.Contains(log.String(), c.message))
		})
	}
}

// The audit log shows that a name was not verified. A named token has only its name.
func TestSenderAddsANameToASharedToken(t *testing.T) {
	shared, named := strings.Repeat("s", 32), strings.Repeat("n", 32)
	tokens, err := ParseTokens([]string{shared, "ann:" + named})
	require.NoError(t, err)
	for _, c := range []struct{ token, claimed, want string }{
		{shared, "", "operator"}, {shared, "operator", "operator"}, {shared, "ceo@corp", "operator (ceo@corp)"},
		{shared, "operator (ceo@corp)", "operator (ceo@corp)"}, {named, "ceo@corp", "ann"}, {named, "", "ann"},
	} {
		r := httptest.NewRequest(http.MethodGet, Prefix+"me", nil)
		r.Header.Set("Authorization", "Bearer "+c.token)
		r.Header.Set(api.ActorHeader, c.claimed)
		sender, err := tokens.operator(r)
		require.NoError(t, err)
		require.Equal(t, c.want, sender.Name)
	}
}
