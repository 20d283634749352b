// Package operator is the admin listener: readiness of the whole API, and the operators' verbs, handed on to the service that
// owns them. It is a listener of its own, so that nothing of it can be reached from where consumers are.
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

// Prefix is what the paths of all verbs begin with.
const Prefix = "/operator/v1/"

const (
	maxBody  = 64 << 20            // a whole file of listings or events
	bodyTime = 5 * time.Minute     // for sending it
	workTime = api.OperatorTimeout // for what the service does with it, and for the answer
)

// Owners says which service a verb belongs to, by the first segment after Prefix: the base URL of the service.
type Owners map[string]*url.URL

// Tokens are the operators' names by what identifies them: the hash of the token. The name of a token that several share is
// empty.
type Tokens map[[sha256.Size]byte]string

// ParseTokens reads entries of the form name:token, or token. The name is recorded with everything that is done with the
// token; whoever uses a token without a name says who they are in api.ActorHeader, and is believed.
func ParseTokens(entries []string) (Tokens, error) {
	tokens := Tokens{}
	for i, entry := range entries {
		name, token, named := strings.Cut(entry, ":")
		if !named {
			name, token = "", entry
		}
		if named && (name == "" || strings.TrimFunc(name, plain) != "") || len(token) < 32 {
			return nil, fmt.Errorf("entry %d must be token or name:token: the name of letters, digits and . _ -, the token of at least 32 characters", i+1)
		}
		sum := sha256.Sum256([]byte(token))
		if _, twice := tokens[sum]; twice {
			return nil, fmt.Errorf("entry %d has the token of another one", i+1)
		}
		tokens[sum] = name
	}
	return tokens, nil
}

func plain(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)
}

// nobody is recorded where the holder of a shared token does not say who they are.
const nobody = "operator"

// operator is who the request's token stands for, compared in a time that does not depend on the token.
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
	return cmp.Or(name, r.Header.Get(api.ActorHeader), nobody), nil
}

// Handler makes the handler of the admin listener. ready answers /readyz; internalToken and transport are for the services.
func Handler(tokens Tokens, owners Owners, internalToken string, transport http.RoundTripper, ready http.Handler, refusals problem.Writer) http.Handler {
	services := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(owners[verb(p.In.URL)])
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
			resp.Header.Del(api.RequestIDHeader) // it is on the answer already
			return nil
		},
		ErrorLog: slog.NewLogLogger(refusals.Log.Handler(), slog.LevelWarn), // by itself it would write past the log, to stderr
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if ours := new(problem.Error); !errors.As(err, &ours) { // which would be that of an upload
				err = problem.Unavailable(err)
			}
			refusals.Write(w, r, err)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			telemetry.SetRoute(r.Context(), "/readyz")
			ready.ServeHTTP(w, r)
			return
		}
		verb := verb(r.URL)
		if owners[verb] == nil {
			refusals.Write(w, r, problem.New(problem.NotFound, "There is nothing at this address."))
			return
		}
		telemetry.SetRoute(r.Context(), Prefix+verb)
		name, err := tokens.operator(r)
		if err != nil {
			refusals.Write(w, r, err)
			return
		}
		r.Header.Set(api.ActorHeader, name)
		// The listener's own limits are for small requests.
		conn, sent := http.NewResponseController(w), time.Now().Add(bodyTime)
		answered := sent.Add(workTime)
		if r.ContentLength == 0 {
			sent = answered
		}
		_ = conn.SetReadDeadline(sent)
		_ = conn.SetWriteDeadline(answered)
		r.Body = upload{http.MaxBytesReader(w, r.Body, maxBody), conn, answered}
		services.ServeHTTP(w, r)
	})
}

// upload is the file that an operator sends. What is wrong with it is told from a failure of the service that it is for.
type upload struct {
	io.ReadCloser
	conn     *http.ResponseController
	answered time.Time // by when the answer must be written
}

func (u upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		// The server goes on reading, to notice an operator that leaves, and takes a deadline that passes for one.
		_ = u.conn.SetReadDeadline(u.answered)
	}
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		err = problem.New(problem.InvalidParameter, "The file is larger than %d MiB; send it in parts.", tooLarge.Limit>>20).Because(err)
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		err = problem.New(problem.InvalidParameter, "The file did not arrive in time.").Because(err)
	}
	return n, err
}

// verb is the first segment of a verb's path; empty for a path that is none.
func verb(u *url.URL) string {
	rest, ok := strings.CutPrefix(u.Path, Prefix)
	if !ok || path.Clean(u.Path) != u.Path || u.RawPath != "" {
		return ""
	}
	first, _, _ := strings.Cut(rest, "/")
	return first
}
