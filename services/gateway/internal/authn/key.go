package authn

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/problem"
)

// Key is an API key as the client sent it, in our form or in that of older keys. It is a secret; see apikey.Key.
type Key struct {
	of       fingerprint
	ours     apikey.Key
	resolved *Principal // nil for a key that a client sent
}

// KeyOf returns the Key of a key in our form.
func KeyOf(key apikey.Key) Key {
	return Key{of: sha256.Sum256([]byte(key.Reveal())), ours: key}
}

// Resolved stands for the key of a principal that authquota returned for this request only. Resolve checks it without a lookup.
func Resolved(p api.Principal) (Key, error) {
	resolved, err := newPrincipal(p, fingerprint{}, 0)
	return Key{resolved: resolved}, err
}

// Format never shows the key.
func (k Key) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(k.ours.String())) }

// digests returns the keyed hashes by which authquota looks up the key, one for each pepper.
func (k Key) digests(peppers [][]byte) []string {
	if k.ours == "" {
		return apikey.OlderSum(k.of).Digests(peppers)
	}
	return k.ours.Digests(peppers)
}

// Read returns the API key of a request from its Authorization headers. older is the accepted form of older keys.
func Read(headers []string, older apikey.OlderForm) (Key, error) {
	if len(headers) > 1 {
		return Key{}, problem.New(problem.MissingAPIKey, "Send exactly one Authorization header.")
	}
	if len(headers) == 0 {
		return Key{}, missing()
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	token = strings.Trim(token, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return Key{}, missing()
	}
	if key, ok := apikey.Parse(token); ok {
		return KeyOf(key), nil
	}
	if older.Matches(token) {
		return Key{of: sha256.Sum256([]byte(token))}, nil
	}
	return Key{}, problem.New(problem.InvalidAPIKey, "This API key is malformed. Check that it was copied completely.")
}

func missing() error {
	return problem.New(problem.MissingAPIKey, "Missing API key. Send it in the header Authorization: Bearer <API_KEY>.")
}
