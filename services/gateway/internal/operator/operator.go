// Package operator serves the admin listener: the readiness of the whole API, and the operator API, whose requests are forwarded to the
// service that owns the resource. The listener is separate so that consumers cannot reach it.
package operator

import (
	"context"
	"encoding/json"
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

// Owners maps a service, such as Catalog, to its base URL. The endpoints of a service without an entry do not exist.
type Owners map[string]*url.URL

// Handler returns the handler of the admin listener. ready serves /readyz; internalToken and transport connect to the services.
func Handler(tokens Tokens, owners Owners, internalToken string, transport http.RoundTripper, ready http.Handler, errorWriter problem.Writer) http.Handler {
	services, endpoints := newProxy(internalToken, transport, errorWriter), newTable(owners)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			telemetry.SetRoute(r.Context(), "/readyz")
			ready.ServeHTTP(w, r)
			return
		}
		endpoint, known, allowed := endpoints.find(r)
		if !known || path.Clean(r.URL.Path) != r.URL.Path || r.URL.RawPath != "" {
			errorWriter.Write(w, r, problem.New(problem.NotFound, "There is nothing at this address."))
			return
		}
		resource, _, _ := strings.Cut(endpoint.path, "/")
		telemetry.SetRoute(r.Context(), Prefix+resource)
		sender, err := tokens.operator(r)
		switch {
		case err != nil:
			errorWriter.Write(w, r, err)
			return
		case !allowed:
			errorWriter.Write(w, r, problem.New(problem.MethodNotAllowed, "This address does not take that method."))
			return
		case !endpoint.allows(sender.Role):
			forbid(w, sender.Role)
			return
		case endpoint.service == gateway:
			writeJSON(w, http.StatusOK, sender) // me
			return
		}
		r.Header.Set(api.ActorHeader, sender.Name)
		// Replace the timeouts of the listener, which are for small requests.
		conn, readBy := http.NewResponseController(w), time.Now().Add(api.UploadTimeout)
		respondBy := readBy.Add(api.OperatorTimeout)
		if r.ContentLength == 0 {
			readBy = respondBy
		}
		_ = conn.SetReadDeadline(readBy)
		_ = conn.SetWriteDeadline(respondBy)
		r.Body = upload{http.MaxBytesReader(w, r.Body, api.MaxFile), conn, respondBy}
		services.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), ownerKey{}, owners[endpoint.service])))
	})
}

// ownerKey is the context key of the base URL of the service that owns the endpoint.
type ownerKey struct{}

// forbid responds that the role cannot use the endpoint. Its code is not one of problem.Table, which is the contract with API consumers.
func forbid(w http.ResponseWriter, role api.Role) {
	writeJSON(w, http.StatusForbidden, api.Error{Error: api.ErrorDetail{
		Code: "forbidden", Message: fmt.Sprintf("An operator token with the role %s cannot do this.", role),
	}})
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // fails only if the client disconnected
}

// newProxy returns the reverse proxy to the services. It forwards only the body, the actor, and the headers Accept,
// Content-Type and If-Match.
func newProxy(internalToken string, transport http.RoundTripper, errorWriter problem.Writer) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(p *httputil.ProxyRequest) {
			owner, _ := p.In.Context().Value(ownerKey{}).(*url.URL)
			p.SetURL(owner)
			p.Out.Header = http.Header{
				"Authorization": {"Bearer " + internalToken},
				api.ActorHeader: {p.In.Header.Get(api.ActorHeader)},
				"User-Agent":    nil,
			}
			for _, name := range []string{"Accept", "Content-Type", "If-Match"} {
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
