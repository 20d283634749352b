package peer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

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
