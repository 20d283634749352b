// Package admin serves the admin listener: the readiness of the whole API, and the operator API,
// whose requests are forwarded to the service that owns the resource. The listener is separate so
// that consumers cannot reach it.
//
// Handler has the steps of a request: the table routes names the service of its path and the roles
// that may call it, Tokens names its sender, and one of Owners gets it, with the name of the
// sender. The body is an upload, which limits its size and the time that it takes to arrive.
package admin

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"time"

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

// route is an endpoint of the operator API with its service and the roles that can use it.
// RoleAdmin can use every endpoint.
type route struct {
	method, path string // path below Prefix, in the syntax of http.ServeMux
	service      string
	roles        []api.Role
}

var (
	everyone = api.Roles
	curators = []api.Role{api.RoleCurator, api.RolePublisher}
	publish  = []api.Role{api.RolePublisher}
	support  = []api.Role{api.RoleSupport}
	admins   = []api.Role(nil)
)

var routes = []route{
	{"GET", "me", peer.Gateway, everyone},

	{"GET", "catalog", peer.Catalog, curators},
	{"GET", "listings", peer.Catalog, curators},
	{"GET", "records/{id}", peer.Catalog, curators},
	{"PUT", "records/{id}", peer.Catalog, curators},
	{"GET", "changes", peer.Catalog, curators},
	{"GET", "listings/export", peer.Catalog, curators},
	{"POST", "listings/import", peer.Catalog, publish},
	{"POST", "listings/publish", peer.Catalog, publish},
	{"POST", "listings/withdraw", peer.Catalog, publish},
	{"GET", "reviews/due", peer.Catalog, curators},
	{"GET", "reviews/candidates", peer.Catalog, curators},
	{"GET", "reviews/freshness", peer.Catalog, curators},
	{"GET", "reviews/queue", peer.Catalog, curators},
	{"GET", "reviews/records/{id}", peer.Catalog, curators},
	{"POST", "reviews/records/{id}", peer.Catalog, curators},
	{"POST", "reviews/records/{id}/undo", peer.Catalog, curators},
	{"PUT", "reviews/records/{id}/opened", peer.Catalog, curators},
	{"GET", "reviews/withdrawals", peer.Catalog, curators},
	{"POST", "reviews/records/{id}/propose-withdrawal", peer.Catalog, curators},
	{"POST", "reviews/records/{id}/decline-withdrawal", peer.Catalog, publish},
	{"PUT", "reviews/records/{id}/lease", peer.Catalog, curators},
	{"DELETE", "reviews/records/{id}/lease", peer.Catalog, curators},
	{"PUT", "reviews/records/{id}/draft", peer.Catalog, curators},
	{"DELETE", "reviews/records/{id}/draft", peer.Catalog, curators},
	{"PUT", "reviews/records/{id}/skip", peer.Catalog, curators},
	{"DELETE", "reviews/records/{id}/skip", peer.Catalog, curators},

	{"GET", "reviews/second-opinions", peer.History, curators},
	{"POST", "reviews/quotes", peer.History, curators},
	{"GET", "history/{id}", peer.History, curators},
	{"GET", "records/{id}/pages", peer.History, curators},
	{"POST", "records/{id}/read", peer.History, curators},
	{"GET", "events", peer.History, curators},
	{"POST", "events/append", peer.History, publish},

	{"GET", "keys", peer.Authquota, support},
	{"POST", "keys", peer.Authquota, support},
	{"POST", "keys/import", peer.Authquota, support},
	{"GET", "keys/requests", peer.Authquota, support},
	{"POST", "keys/requests/{id}/approve", peer.Authquota, support},
	{"POST", "keys/requests/{id}/decline", peer.Authquota, support},
	{"POST", "keys/{id}/revoke", peer.Authquota, support},
	{"GET", "accounts", peer.Authquota, support},
	{"GET", "accounts/{id}", peer.Authquota, support},
	{"POST", "accounts/{id}/suspend", peer.Authquota, support},
	{"POST", "accounts/{id}/resume", peer.Authquota, support},
	{"POST", "accounts/{id}/grant", peer.Authquota, support},
	{"POST", "accounts/{id}/reset-authenticator", peer.Authquota, support},
	{"GET", "audit", peer.Authquota, support},
	{"GET", "usage", peer.Authquota, support},

	{"POST", "announcements", peer.Authquota, admins},

	{"POST", "billing/reconcile", peer.Billing, admins},
}

func (e route) allows(role api.Role) bool {
	return role == api.RoleAdmin || slices.Contains(e.roles, role)
}

func (e route) takesFile() bool { return e.path == "listings/import" || e.path == "events/append" }

// newTable returns the routes of the services by the pattern of their path, then by method, and a
// mux that finds the pattern of a request.
func newTable(owners Owners) (map[string]map[string]route, *http.ServeMux) {
	table, patterns := map[string]map[string]route{}, http.NewServeMux()
	for _, e := range routes {
		if owners[e.service] == nil && e.service != peer.Gateway {
			continue
		}
		pattern := Prefix + e.path
		if table[pattern] == nil {
			table[pattern] = map[string]route{}
			patterns.Handle(pattern, http.NotFoundHandler())
		}
		table[pattern][e.method] = e
	}
	return table, patterns
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

// Tokens maps the SHA-256 of a token to its operator.
type Tokens map[[sha256.Size]byte]api.Operator

// ParseTokens parses entries of the form name:role:token, name:token or token. An entry without a
// role is an admin. The audit log records the name with every action. A token without a name is
// shared, and has the name api.SharedOperator. An error names the entry by its position.
func ParseTokens(entries []string) (Tokens, error) {
	tokens := Tokens{}
	for i, entry := range entries {
		operator, token, err := parseToken(entry)
		if err != nil {
			return nil, fmt.Errorf("entry %d %w", i+1, err)
		}
		sum := sha256.Sum256([]byte(token))
		if _, repeated := tokens[sum]; repeated {
			return nil, fmt.Errorf("entry %d repeats a token: use each token once", i+1)
		}
		tokens[sum] = operator
	}
	return tokens, nil
}

const minToken = 32 // bytes

func parseToken(entry string) (o api.Operator, token string, err error) {
	o.Role = api.RoleAdmin
	name, token, named := strings.Cut(entry, ":")
	if !named {
		name, token = api.SharedOperator, entry
	}
	o.Name = name
	// Tokens may contain colons: a part that does not look like a role belongs to the token.
	if role, rest, more := strings.Cut(token, ":"); named && more && role != "" && len(role) < minToken &&
		strings.TrimFunc(role, isLower) == "" {
		if !slices.Contains(api.Roles, api.Role(role)) {
			return o, "", fmt.Errorf("has an unknown role: use one of %s", roleNames())
		}
		o.Role, token = api.Role(role), rest
	}
	if named && (name == "" || strings.TrimFunc(name, isNameRune) != "") || len(token) < minToken {
		return o, "", fmt.Errorf("must be token, name:token or name:role:token: the name of letters, digits and . _ -, the "+
			"token of at least %d characters", minToken)
	}
	return o, token, nil
}

func roleNames() string {
	names := make([]string, len(api.Roles))
	for i, r := range api.Roles {
		names[i] = string(r)
	}
	return strings.Join(names, ", ")
}

func isLower(r rune) bool { return r >= 'a' && r <= 'z' }

func isNameRune(r rune) bool {
	return isLower(r) || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)
}

// operator returns the sender of the request. It looks the token up by its hash, so the time that
// this takes does not help to guess a token.
func (t Tokens) operator(r *http.Request) (api.Operator, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return api.Operator{},
			problem.New(problem.MissingAPIKey, "Missing operator token. Send it in the header Authorization: Bearer <TOKEN>.")
	}
	sender, known := t[sha256.Sum256([]byte(token))]
	if !known {
		return api.Operator{}, problem.New(problem.InvalidAPIKey, "This operator token is not valid.")
	}
	if sender.Name == api.SharedOperator {
		sender.Name = withClaim(r.Header.Get(api.ActorHeader))
	}
	return sender, nil
}

// withClaim returns the name of a shared token with that of the person who uses it, in
// api.ActorHeader, which is a claim of the sender. The result for that name is the same one,
// because the desk sends the name that it got from the gateway.
func withClaim(name string) string {
	if name == "" || name == api.SharedOperator {
		return api.SharedOperator
	}
	return api.SharedOperator + " (" + strings.TrimSuffix(strings.TrimPrefix(name, api.SharedOperator+" ("), ")") + ")"
}

// upload is the request body. It sets the deadlines of the connection, because those of the
// listener are for small requests. A sender that stalls, or sends fewer than api.UploadBlock bytes
// in api.UploadStall, is cut off; the time in which the service does not read does not count. Read
// errors become 400, so that a failed upload is not reported as a failure of the service.
type upload struct {
	io.ReadCloser
	conn    *http.ResponseController
	respond time.Duration // time for the response after the body
	block   int           // bytes that are missing in the current block
	left    time.Duration // for these bytes
}

// newUpload returns the body of r. A body that is no file of any size is limited to api.MaxFile.
func newUpload(w http.ResponseWriter, r *http.Request, file bool) *upload {
	u := &upload{r.Body, http.NewResponseController(w), api.OperatorTimeout, api.UploadBlock, api.UploadStall}
	if file {
		u.respond = api.FileTimeout + time.Minute // the service responds earlier
	} else {
		u.ReadCloser = http.MaxBytesReader(w, r.Body, api.MaxFile)
	}
	u.extend(u.respond)
	return u
}

// extend sets the deadline for reading. Errors of the connection show when it is used.
func (u *upload) extend(read time.Duration) {
	now := time.Now()
	_ = u.conn.SetReadDeadline(now.Add(read))
	_ = u.conn.SetWriteDeadline(now.Add(u.respond))
}

func (u *upload) Read(p []byte) (int, error) {
	begun := time.Now()
	u.extend(u.left)
	n, err := u.ReadCloser.Read(p)
	if u.left, u.block = u.left-time.Since(begun), u.block-n; u.block <= 0 {
		u.left, u.block = api.UploadStall, api.UploadBlock
	}
	if errors.Is(err, io.EOF) {
		// The server keeps reading to detect a disconnect, and a passed read deadline would look
		// like one.
		u.extend(u.respond)
	}
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		err = problem.New(problem.InvalidParameter, "The file is larger than %d MiB; send it in parts.",
			tooLarge.Limit>>20).Because(err)
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		err = problem.New(problem.InvalidParameter, "The file did not arrive in time.").Because(err)
	}
	return n, err
}
