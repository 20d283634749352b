// Package operator serves the admin listener: the readiness of the whole API, and the operator API, whose requests are forwarded to the
// service that owns the resource. The listener is separate so that consumers cannot reach it.
package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
	"strings"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/telemetry"
)

// Prefix is the path prefix of the operator API.
const Prefix = "/operator/v1/"

// Owner is a service that owns endpoints.
type Owner struct {
	URL   *url.URL
	Token string // of the gateway for this service
}

// Owners maps a service, such as Catalog, to its address. The endpoints of a service without an entry do not exist.
type Owners map[string]Owner

// Handler returns the handler of the admin listener. ready serves /readyz; transport connects to the services.
func Handler(tokens Tokens, owners Owners, transport http.RoundTripper, ready http.Handler, errorWriter problem.Writer) http.Handler {
	services, endpoints := newProxy(owners, transport, errorWriter), newTable(owners)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			telemetry.SetRoute(r.Context(), "/readyz")
			ready.ServeHTTP(w, r)
			return
		}
		endpoint, known, allowed := endpoints.find(r)
		if !known || path.Clean(r.URL.Path) != r.URL.Path || r.URL.RawPath != "" {
			errorWriter.Write(w, r, problem.NoEndpoint())
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
		r.Body = newUpload(w, r, endpoint.takesFile())
		services.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), serviceKey{}, endpoint.service)))
	})
}

// serviceKey is the context key of the name of the service that owns the endpoint.
type serviceKey struct{}

func serviceOf(r *http.Request) string {
	service, _ := r.Context().Value(serviceKey{}).(string)
	return service
}

// forbid responds that the role cannot use the endpoint. Its code is not one of problem.Table, which is the contract with API consumers.
func forbid(w http.ResponseWriter, role api.Role) {
	writeJSON(w, http.StatusForbidden, api.OperatorError{Error: api.Problem{
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
func newProxy(owners Owners, transport http.RoundTripper, errorWriter problem.Writer) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(p *httputil.ProxyRequest) {
			owner := owners[serviceOf(p.In)]
			p.SetURL(owner.URL)
			p.Out.Header = http.Header{
				"Authorization": {"Bearer " + owner.Token},
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
			return checkAccess(resp)
		},
		ErrorLog: slog.NewLogLogger(errorWriter.Log.Handler(), slog.LevelWarn), // the default writes to stderr
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if ours := new(problem.Error); !errors.As(err, &ours) { // a problem.Error comes from upload.Read or checkAccess
				err = problem.Unavailable(err)
			}
			errorWriter.Write(w, r, err)
		},
	}
}

// checkAccess returns an error if the service rejected the gateway instead of the request: its 401 and 403 are never about the operator,
// who would replace a valid token. Without the endpoint, the service has another version, or the address belongs to another server.
func checkAccess(resp *http.Response) error {
	service := serviceOf(resp.Request)
	fail := func(cause error) error {
		return problem.New(problem.ServiceUnavailable, "The gateway cannot call %s: %v.", service, cause)
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fail(peer.TokenError{Caller: peer.Gateway, Peer: service})
	case http.StatusNotFound:
		start, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // an error shows when the rest is read
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(start), resp.Body), resp.Body}
		var body api.OperatorError
		if json.Unmarshal(start, &body) != nil || body.Error.Path == problem.Endpoint {
			return fail(fmt.Errorf("it does not serve %s: compare its release and its address in the settings of the gateway", resp.Request.URL.Path))
		}
	}
	return nil
}
