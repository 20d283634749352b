package servicetest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/storetest"
)

const (
	// Actor is the operator in whose name Do sends requests.
	Actor = "ada"

	// PublicURL is the address of the gateway in documentation links.
	PublicURL = "https://api.example"
)

// Do sends a request as a service that may call the path, in the name of an operator, and with
// further headers, given as pairs. body is text, a value that is encoded as JSON, or nil.
func (s *Service) Do(method, path string, body any, headers ...string) Response {
	s.t.Helper()
	header := http.Header{}
	header.Set("Authorization", "Bearer "+Token(Caller(s.name, path)))
	header.Set(api.ActorHeader, Actor)
	for i := 0; i < len(headers); i += 2 {
		header.Set(headers[i], headers[i+1])
	}
	return Send(s.t, method, s.URL+path, body, header)
}

// Send sends a request with exactly these headers. body is as for Do.
func Send(t testing.TB, method, url string, body any, header http.Header) Response {
	t.Helper()
	req := storetest.Must(http.NewRequestWithContext(context.Background(), method, url, encode(t, body)))(t)
	if header != nil {
		req.Header = header
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text := storetest.Must(io.ReadAll(resp.Body))(t)
	return Response{t, resp.StatusCode, resp.Header, string(text)}
}

func encode(t testing.TB, body any) io.Reader {
	t.Helper()
	switch b := body.(type) {
	case nil:
		return nil
	case string:
		return strings.NewReader(b)
	case []byte:
		return bytes.NewReader(b)
	}
	text := storetest.Must(json.Marshal(body))(t)
	return bytes.NewReader(text)
}

// Response is a response with its body.
type Response struct {
	t      testing.TB
	Status int
	Header http.Header
	Body   string
}

// Recorded returns the response that a handler wrote to w.
func Recorded(t testing.TB, w *httptest.ResponseRecorder) Response {
	return Response{t, w.Code, w.Header(), w.Body.String()}
}

// Read decodes the body of a successful response. It fails the test if the body has a field that T
// lacks.
func Read[T any](r Response) (out T) {
	r.t.Helper()
	require.Equal(r.t, 2, r.Status/100, r.Body)
	in := json.NewDecoder(strings.NewReader(r.Body))
	in.DisallowUnknownFields()
	require.NoError(r.t, in.Decode(&out))
	return out
}

// RequireError fails the test unless r is an error response with this code and these texts in its
// message. It returns the error.
func (r Response) RequireError(code problem.Code, texts ...string) api.Problem {
	r.t.Helper()
	var e api.OperatorError // has the fields of an api.Error
	require.NoError(r.t, json.Unmarshal([]byte(r.Body), &e), r.Body)
	require.Equal(r.t, code, problem.Code(e.Error.Code), r.Body)
	require.Equal(r.t, code.Status(), r.Status)
	require.Equal(r.t, PublicURL+"/docs/errors#"+string(code), e.Documentation)
	for _, text := range texts {
		require.Contains(r.t, e.Error.Path+" "+e.Error.Message, text)
	}
	return e.Error
}

// NewPeer starts a fake of a service that responds with h, and sends the id of each request back as
// services do.
func NewPeer(h http.Handler) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id := r.Header[api.RequestIDHeader]; id != nil {
			w.Header()[api.RequestIDHeader] = id
		}
		h.ServeHTTP(w, r)
	}))
}
