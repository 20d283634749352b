package peer

import (
	"crypto/sha256"
	"errors"
	"fmt"
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

// The services. Each identifies itself to another with a token for that pair.
const (
	Gateway   = "gateway"
	Catalog   = "catalog"
	History   = "history"
	Authquota = "authquota"
	Billing   = "billing"
)

var services = []string{Gateway, Catalog, History, Authquota, Billing}

// Tokens holds the tokens that a service sends.
type Tokens struct {
	Peers []string `env:"OPPORTUNITY_PEER_TOKENS" doc:"Secret. Tokens that this service sends to other services, comma-separated, each as service:token, such as catalog:TOKEN. The token has at least 32 characters (openssl rand -hex 32). The other service has it in OPPORTUNITY_CALLER_TOKENS."`
}

// Callers holds the tokens that a service accepts from others.
type Callers struct {
	Tokens []string `env:"OPPORTUNITY_CALLER_TOKENS" doc:"Secret. Tokens that this service accepts, comma-separated, each as service:token with the name of the calling service, such as gateway:TOKEN. A service can have several, so that its token can be replaced."`
}

// minToken is the minimum length of a token in characters.
const minToken = 32

// entry is the token of one pair of services.
type entry struct{ service, token string }

// parseEntries parses a list of entries. Its errors quote no value: one without a name would be a
// token.
func parseEntries(setting string, list []string) ([]entry, error) {
	var out []entry
	var errs []error
	for i, text := range list {
		service, token, ok := strings.Cut(strings.TrimSpace(text), ":")
		switch {
		case !ok || !slices.Contains(services, service):
			errs = append(errs, fmt.Errorf("%s: entry %d must be the name of a service, a colon and a token; the "+
				"services are %s", setting, i+1, strings.Join(services, ", ")))
		case len(token) < minToken:
			errs = append(errs, fmt.Errorf("%s: the token of %s must have at least %d characters", setting, service, minToken))
		default:
			out = append(out, entry{service, token})
		}
	}
	return out, errors.Join(errs...)
}

const (
	peerSetting   = "OPPORTUNITY_PEER_TOKENS"
	callerSetting = "OPPORTUNITY_CALLER_TOKENS"
)

// Validate returns an error if a token is malformed, or if there is none for one of peers.
func (t Tokens) Validate(peers ...string) error {
	sent, err := parseEntries(peerSetting, t.Peers)
	errs := []error{err}
	for i, e := range sent {
		if slices.ContainsFunc(sent[:i], func(other entry) bool { return other.service == e.service }) {
			errs = append(errs, fmt.Errorf("%s: %s has two tokens: only the service that is called can have several",
				peerSetting, e.service))
		}
	}
	for _, name := range peers {
		if err == nil && t.For(name) == "" {
			errs = append(errs, fmt.Errorf("%s: the token for %s is missing", peerSetting, name))
		}
	}
	return errors.Join(errs...)
}

// For returns the token to send to a service, or "" if there is none.
func (t Tokens) For(service string) string {
	sent, _ := parseEntries(peerSetting, t.Peers) // reported by Validate
	for _, e := range sent {
		if e.service == service {
			return e.token
		}
	}
	return ""
}

// Validate returns an error if a token is malformed, belongs to two services or to one that calls
// nothing of this service, or if there is none at all.
func (c Callers) Validate(service string) error {
	accepted, err := parseEntries(callerSetting, c.Tokens)
	errs := []error{err}
	if len(c.Tokens) == 0 {
		errs = append(errs, fmt.Errorf("%s is missing: list a token for each of %s", callerSetting,
			strings.Join(CallersOf(service), ", ")))
	}
	names := map[string]string{} // by token
	for _, e := range accepted {
		if !slices.Contains(CallersOf(service), e.service) {
			errs = append(errs, fmt.Errorf("%s: %s does not call %s; its callers are %s", callerSetting, e.service, service,
				strings.Join(CallersOf(service), ", ")))
		}
		if name, ok := names[e.token]; ok && name != e.service {
			errs = append(errs, fmt.Errorf("%s: %s and %s have the same token: each service needs its own", callerSetting, name,
				e.service))
		}
		names[e.token] = e.service
	}
	return errors.Join(errs...)
}
