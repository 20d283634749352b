package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
)

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

// operator returns the sender of the request. Tokens are compared in constant time.
func (t Tokens) operator(r *http.Request) (api.Operator, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return api.Operator{},
			problem.New(problem.MissingAPIKey, "Missing operator token. Send it in the header Authorization: Bearer <TOKEN>.")
	}
	sent, sender, known := sha256.Sum256([]byte(token)), api.Operator{}, false
	for sum, holder := range t {
		if subtle.ConstantTimeCompare(sum[:], sent[:]) == 1 {
			sender, known = holder, true
		}
	}
	if !known {
		return api.Operator{}, problem.New(problem.InvalidAPIKey, "This operator token is not valid.")
	}
	if sender.Name == api.SharedOperator {
		sender.Name = withClaim(r.Header.Get(api.ActorHeader))
	}
	return sender, nil
}

// withClaim returns the name of a shared token with that of the person who uses it, in
// api.ActorHeader, which is a claim of the sender. The result for
// that name is the same one, because the desk sends the name that it got from the gateway.
func withClaim(name string) string {
	if name == "" || name == api.SharedOperator {
		return api.SharedOperator
	}
	return api.SharedOperator + " (" + strings.TrimSuffix(strings.TrimPrefix(name, api.SharedOperator+" ("), ")") + ")"
}
