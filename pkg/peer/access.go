package peer

import (
	"crypto/sha256"
	"net/http"
	"slices"
	"strings"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/telemetry"
)

// Rule names the services that may call a path.
type Rule struct {
	Path    string // if it ends in a slash, also all paths below it
	Callers []string
}

// anyone stands for every caller, also without a token.
const anyone = "anyone"

// rules holds, by service, who may call which path. A path without a rule does not exist for
// callers.
var rules = map[string][]Rule{
	Catalog: {
		{readyPath, []string{anyone}},
		{"/api/", []string{Gateway}},
		{"/internal/v1/overview", []string{Gateway}},
		{"/internal/v1/public-records/", []string{Gateway}},
		{"/operator/v1/", []string{Gateway}},
		{"/internal/v1/listings", []string{History}},
		{api.MarkPath, []string{Gateway}},
	},
	History: {
		{readyPath, []string{anyone}},
		{"/.well-known/opportunity-history/", []string{anyone}},
		{"/api/", []string{Gateway}},
		{"/operator/v1/", []string{Gateway}},
		{"/internal/v1/summaries", []string{Catalog}},
		{"/internal/v1/records/", []string{Catalog}},
		{"/internal/v1/unpublished-listings", []string{Catalog}},
		{"/internal/v1/reviews", []string{Catalog}},
		{"/internal/v1/reviews/done", []string{Catalog}},
		{"/internal/v1/readings", []string{Catalog}},
		{api.MarkPath, []string{Gateway}},
	},
	Authquota: {
		{readyPath, []string{anyone}},
		{"/account/", []string{Gateway}},
		{"/internal/v1/principals", []string{Gateway}},
		{"/internal/v1/key-digests", []string{Gateway}},
		{"/internal/v1/settings", []string{Gateway}},
		{"/internal/v1/served", []string{Gateway}},
		{"/internal/v1/usage/", []string{Gateway}},
		{"/internal/v1/usage-batches", []string{Gateway}},
		{"/operator/v1/", []string{Gateway}},
		{"/internal/v1/entitlements/", []string{Billing}},
		{api.MarkPath, []string{Gateway, Billing}},
	},
	Billing: {
		{readyPath, []string{anyone}},
		{"/billing/stripe/webhook", []string{anyone}},
		{"/billing/sandbox/", []string{Gateway}},
		{"/operator/v1/", []string{Gateway}},
		{api.MarkPath, []string{Gateway}},
		{"/internal/v1/checkouts", []string{Authquota}},
		{"/internal/v1/portals", []string{Authquota}},
		{"/internal/v1/subscriptions/", []string{Authquota}},
	},
}

// Rules returns who may call which path of a service.
func Rules(service string) []Rule { return rules[service] }

// Public reports whether callers need no token.
func (r Rule) Public() bool { return slices.Contains(r.Callers, anyone) }

// Covers reports whether the rule is that of path.
func (r Rule) Covers(path string) bool {
	if !strings.HasSuffix(r.Path, "/") {
		return path == r.Path
	}
	return strings.HasPrefix(path, r.Path) || path+"/" == r.Path
}

// CallersOf returns the services that call a service, in the order of services.
func CallersOf(service string) (out []string) {
	for _, caller := range services {
		if slices.ContainsFunc(rules[service], func(r Rule) bool { return slices.Contains(r.Callers, caller) }) {
			out = append(out, caller)
		}
	}
	return out
}

// Access authenticates the callers of one service and lets them call only what Rules allows.
type Access struct {
	service string
	// by digest of the token, so that the time of a lookup reveals nothing about a token
	callers map[[sha256.Size]byte]string
	errors  problem.Writer
}

// NewAccess returns the Access of a service with valid settings.
func NewAccess(service string, callers Callers, errors problem.Writer) *Access {
	a := &Access{service: service, callers: map[[sha256.Size]byte]string{}, errors: errors}
	accepted, _ := parseEntries(callerSetting, callers.Tokens)
	for _, e := range accepted {
		a.callers[sha256.Sum256([]byte(e.token))] = e.service
	}
	return a
}

// Handler returns a handler that passes allowed requests to next. It responds with 401 to an
// unknown token, with 403 to a service that may not call the path, and with 404 if the path has no
// rule. It must be the outermost handler of the service port.
func (a *Access) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i := slices.IndexFunc(rules[a.service], func(rule Rule) bool { return rule.Covers(r.URL.Path) })
		if i < 0 {
			a.errors.Write(w, r, problem.NoEndpoint())
			return
		}
		rule := rules[a.service][i]
		telemetry.SetRoute(r.Context(), rule.Path) // until the router of next sets the exact one
		caller, known := a.caller(r)
		switch {
		case rule.Public() && r.Header.Get("Authorization") == "":
			next.ServeHTTP(w, r)
		case !known:
			a.errors.Write(w, r, problem.New(problem.InvalidAPIKey,
				"Missing or unknown token of a service: compare %s of the caller with %s of %s.",
				peerSetting, callerSetting, a.service))
		case rule.Public(), slices.Contains(rule.Callers, caller):
			next.ServeHTTP(w, r)
		default:
			a.forbid(w, r, rule, caller)
		}
	})
}

// caller returns the service that sent the request, if it has a token of one. A request for
// readiness may name its sender, which must be the service of the token: otherwise two entries of
// the settings are mixed up.
func (a *Access) caller(r *http.Request) (name string, known bool) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return "", false
	}
	name, known = a.callers[sha256.Sum256([]byte(token))]
	if r.URL.Path == readyPath { // only there, because parsing a query costs as much as all else here
		if claimed := r.URL.Query().Get(callerParameter); claimed != "" && claimed != name {
			return "", false
		}
	}
	return name, known
}

// forbid responds that the caller may not call the path. Its code is not one of problem.Table,
// which is the contract with API consumers.
func (a *Access) forbid(w http.ResponseWriter, r *http.Request, rule Rule, caller string) {
	a.errors.Log.WarnContext(r.Context(), "call of another service forbidden", "caller", caller, "method", r.Method,
		"route", rule.Path)
	body, _ := api.Encode(api.Error{Error: api.ErrorDetail{ // cannot fail: strings only
		Code: "forbidden", Message: "The service " + caller + " may not call " + rule.Path + " of " + a.service + ".",
	}})
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusForbidden)
	_, _ = w.Write(body)
}
