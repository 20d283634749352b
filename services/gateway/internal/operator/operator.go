// Package operator serves the admin listener: the readiness of the whole API, and the operator API, whose requests are forwarded to the
// service that owns the resource. The listener is separate so that consumers cannot reach it.
package operator

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/telemetry"
)

// Prefix is the path prefix of the operator API.
const Prefix = "/operator/v1/"

const (
	maxBody        = 64 << 20            // a file of listings or events
	uploadTimeout  = 5 * time.Minute     // for the upload
	processTimeout = api.OperatorTimeout // for the service to process the file and respond
)

// Owners maps a resource, the first path segment after Prefix, to the base URL of its service.
type Owners map[string]*url.URL

// Tokens maps the SHA-256 of a token to the name of its operator. The name of a shared token is empty.
type Tokens map[[sha256.Size]byte]string

// ParseTokens parses entries of the form name:token or token. The audit log records the name with every action. For a shared token, it
// records the unverified name in api.ActorHeader. An error names the entry by its position.
func ParseTokens(entries []string) (Tokens, error) {
	tokens := Tokens{}
	for i, entry := range entries {
		name, token, named := strings.Cut(entry, ":")
		if !named {
			name, token = "", entry
		}
		if named && (name == "" || strings.TrimFunc(name, isNameRune) != "") || len(token) < 32 {
			return nil, fmt.Errorf("entry %d must be token or name:token: the name of letters, digits and . _ -, the token of at least 32 characters", i+1)
		}
		sum := sha256.Sum256([]byte(token))
		if _, repeated := tokens[sum]; repeated {
			return nil, fmt.Errorf("entry %d repeats a token: use each token once", i+1)
		}
		tokens[sum] = name
	}
	return tokens, nil
}

func isNameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)
}

// defaultActor is recorded for a shared token without api.ActorHeader.
const defaultActor = "operator"

// operator returns the name of the operator. Tokens are compared in constant time.
func (t Tokens) operator(r *http.Request) (string, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", problem.New(problem.MissingAPIKey, "Missing operator token. Send it in the header Authorization: Bearer <TOKEN>.")
	}
	sent, name, known := sha256.Sum256([]byte(token)), "", false
	for sum, holder := range t {
		if subtle.ConstantTimeCompare(sum[:], sent[:]) == 1 {
			name, known = holder, true
		}
	}
	if !known {
		return "", problem.New(problem.InvalidAPIKey, "This operator token is not valid.")
	}
	return cmp.Or(name, r.Header.Get(api.ActorHeader), defaultActor), nil
}

// Handler returns the handler of the admin listener. ready serves /readyz; internalToken and transport connect to the services.
func Handler(tokens Tokens, owners Owners, internalToken string, transport http.RoundTripper, ready http.Handler, errorWriter problem.Writer) http.Handler {
	services := newProxy(owners, internalToken, transport, errorWriter)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			telemetry.SetRoute(r.Context(), "/readyz")
			ready.ServeHTTP(w, r)
			return
		}
		res := resource(r.URL)
		if owners[res] == nil {
			errorWriter.Write(w, r, problem.New(problem.NotFound, "There is nothing at this address."))
			return
		}
		telemetry.SetRoute(r.Context(), Prefix+res)
		name, err := tokens.operator(r)
		if err != nil {
			errorWriter.Write(w, r, err)
			return
		}
		r.Header.Set(api.ActorHeader, name)
		// Replace the timeouts of the listener, which are for small requests.
		conn, readBy := http.NewResponseController(w), time.Now().Add(uploadTimeout)
		respondBy := readBy.Add(processTimeout)
		if r.ContentLength == 0 {
			readBy = respondBy
		}
		_ = conn.SetReadDeadline(readBy)
		_ = conn.SetWriteDeadline(respondBy)
		r.Body = upload{http.MaxBytesReader(w, r.Body, maxBody), conn, respondBy}
		services.ServeHTTP(w, r)
	})
}

// newProxy returns the reverse proxy to the services. It forwards only the body, the actor, Accept and Content-Type.
func newProxy(owners Owners, internalToken string, transport http.RoundTripper, errorWriter problem.Writer) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(owners[resource(p.In.URL)])
			p.Out.Header = http.Header{
				"Authorization": {"Bearer " + internalToken},
				api.ActorHeader: {p.In.Header.Get(api.ActorHeader)},
				"User-Agent":    nil,
			}
			for _, name := range []string{"Accept", "Content-Type"} {
				if v := p.In.Header[name]; v != nil {
					p.Out.Header[name] = v
				}
			}
		},
		FlushInterval: -1, // an export is a stream
		ModifyResponse: func(resp *http.Response) error {
			resp.Header.Del(api.RequestIDHeader) // set by the gateway
			return nil
		},
		ErrorLog: slog.NewLogLogger(errorWriter.Log.Handler(), slog.LevelWarn), // the default writes to stderr
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if ours := new(problem.Error); !errors.As(err, &ours) { // a problem.Error comes from upload.Read
				err = problem.Unavailable(err)
			}
			errorWriter.Write(w, r, err)
		},
	}
}

// upload is the request body. It converts read errors to 400, so that a failed upload is not reported as a failure of the service.
type upload struct {
	io.ReadCloser
	conn      *http.ResponseController
	respondBy time.Time // deadline of the response
}

func (u upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		// The server keeps reading to detect a disconnect, and a passed read deadline would look like one.
		_ = u.conn.SetReadDeadline(u.respondBy)
	}
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		err = problem.New(problem.InvalidParameter, "The file is larger than %d MiB; send it in parts.", tooLarge.Limit>>20).Because(err)
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		err = problem.New(problem.InvalidParameter, "The file did not arrive in time.").Because(err)
	}
	return n, err
}

// resource returns the first path segment after Prefix, or an empty string for any other path.
func resource(u *url.URL) string {
	rest, ok := strings.CutPrefix(u.Path, Prefix)
	if !ok || path.Clean(u.Path) != u.Path || u.RawPath != "" {
		return ""
	}
	first, _, _ := strings.Cut(rest, "/")
	return first
}
