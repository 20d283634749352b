// Package admin serves the admin listener: the readiness of the whole API, and the operator API,
// whose requests are forwarded to the service that owns the resource. The listener is separate so
// that consumers cannot reach it.
package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strings"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/gateway/internal/proxy"
)

// Prefix is the path prefix of the operator API.
const Prefix = "/operator/v1/"

// Owners maps the name of a service, such as peer.Catalog, to it. The endpoints of a service
// without an entry do not exist.
type Owners map[string]*proxy.Service

// Handler returns the handler of the admin listener. ready serves /readyz.
func Handler(tokens Tokens, owners Owners, ready http.Handler, errorWriter problem.Writer) http.Handler {
	endpoints, patterns := newTable(owners)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			telemetry.SetRoute(r.Context(), "/readyz")
			ready.ServeHTTP(w, r)
			return
		}
		_, pattern := patterns.Handler(r)
		methods, known := endpoints[pattern]
		if !known || path.Clean(r.URL.Path) != r.URL.Path || r.URL.RawPath != "" {
			errorWriter.Write(w, r, problem.NoEndpoint())
			return
		}
		resource, _, _ := strings.Cut(strings.TrimPrefix(pattern, Prefix), "/")
		telemetry.SetRoute(r.Context(), Prefix+resource)
		sender, err := tokens.operator(r)
		endpoint, allowed := methods[r.Method]
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
		case endpoint.service == peer.Gateway:
			writeJSON(w, http.StatusOK, sender) // me
			return
		}
		r.Body = newUpload(w, r, endpoint.takesFile())
		defer r.Body.Close() // the transport may still read it after the response
		response, err := owners[endpoint.service].Operate(r, sender.Name)
		if err != nil {
			errorWriter.Write(w, r, err)
			return
		}
		if err := response.Write(w); err != nil {
			errorWriter.Log.WarnContext(r.Context(), "response to an operator ended early", "service_called", endpoint.service,
				"error", err.Error())
			panic(http.ErrAbortHandler) // so that the operator does not take it for the whole
		}
	})
}

// forbid responds that the role cannot use the endpoint. Its code is not one of problem.Table,
// which is the contract with API consumers.
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
