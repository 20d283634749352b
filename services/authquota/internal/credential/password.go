// Package credential has the rules of what people sign in with. Package people stores them.
//
// A password must not be easy to guess (CheckPassword), and its argon2id hash is verified in the
// same time for an account that does not exist. An authenticator has a seed (NewSeed, SeedQR), and
// a code belongs to a step of 30 seconds (CodeStep), which can be used once. A PasskeySite adds a
// Passkey of a PasskeyOwner and verifies its proofs. Wrong input is a Rejection or
// ErrPasskeyRejected, and no error or log quotes a secret.
package credential

import (
	"context"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/alexedwards/argon2id"
	"github.com/ccojocar/zxcvbn-go"
	"golang.org/x/text/unicode/norm"
)

// Lengths in characters. The maximum bounds the cost of the strength check.
const (
	ShortestPassword = 12
	LongestPassword  = 128
)

// Rejection is the reason for rejecting a password, as a sentence for the person who chose it. It
// never quotes the password.
type Rejection string

func (r Rejection) Error() string { return string(r) }

// Reasons returned by CheckPassword.
const (
	TooShort  Rejection = "Use at least 12 characters, such as a few unrelated words."
	TooLong   Rejection = "Use at most 128 characters."
	NotText   Rejection = "Use characters that a keyboard can type."
	IsAddress Rejection = "Do not use your email address as the password."
	TooEasy   Rejection = "This password is too easy to guess. Choose a less common one, such as a few unrelated words."
)

// minScore is the minimum zxcvbn score, of 0 to 4: more than 10^10 guesses.
const minScore = 4

// serviceWords are words suggested by this service, which attackers try first.
var serviceWords = []string{"opportunity", "opportunities", "opportunity data api", "api", "oda"}

// CheckPassword returns nil if the password may be used with this email address, or a Rejection.
// There are no character class rules. CheckPassword estimates the number of guesses for an attacker
// who tries common passwords, words, names, dates, keyboard patterns, the address, the name of this
// service and well-known phrases.
//
// CheckPassword does not query lists of leaked passwords, because no part of a password is sent to
// a third party.
func CheckPassword(pw, email string) error {
	if !utf8.ValidString(pw) {
		return NotText
	}
	pw = normal(pw)
	switch n := utf8.RuneCountInString(pw); {
	case strings.ContainsFunc(pw, unicode.IsControl):
		return NotText
	case n < ShortestPassword:
		return TooShort
	case n > LongestPassword:
		return TooLong
	case strings.EqualFold(strings.TrimSpace(pw), strings.TrimSpace(email)):
		return IsAddress
	}
	theirs := strings.FieldsFunc(strings.ToLower(email),
		func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if famous(pw) || zxcvbn.PasswordStrength(pw,
		slices.Concat(serviceWords, theirs, []string{strings.ToLower(email)})).Score < minScore {
		return TooEasy
	}
	return nil
}

// PasswordCost is OWASP's recommendation for argon2id. The library's defaults depend on the number
// of CPUs, so hashes would differ between machines. Only package testkit changes it, for tests.
var PasswordCost = argon2id.Params{Memory: 19 * 1024, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}

// slots bounds the concurrent hash computations in this process, and thereby their memory. Excess
// sign-ins wait.
var slots = make(chan struct{}, 4)

func acquire(ctx context.Context) (leave func(), err error) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// normal returns the form of a password that is hashed (RFC 8265, section 4.2): keyboards differ in
// whether é is one character or two, and in the character of the space bar.
func normal(pw string) string {
	return norm.NFC.String(strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Zs, r) {
			return ' '
		}
		return r
	}, pw))
}

// HashPassword returns the hash of a password. It returns an error only if ctx ends while it waits
// for a slot.
func HashPassword(ctx context.Context, pw string) (string, error) {
	leave, err := acquire(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	return argon2id.CreateHash(normal(pw), &PasswordCost)
}

// VerifyPassword reports whether hash matches pw, and whether hash uses outdated parameters and
// should be computed again from pw. An empty hash takes the same time as any other.
func VerifyPassword(ctx context.Context, pw, hash string) (ok, outdated bool, err error) {
	unknown := hash == ""
	if unknown {
		hash = dummy()
	}
	leave, err := acquire(ctx)
	if err != nil {
		return false, false, err
	}
	defer leave()
	ok, used, err := argon2id.CheckHash(normal(pw), hash)
	if err != nil || unknown {
		return false, false, err
	}
	return ok, *used != PasswordCost, nil
}

var dummy = sync.OnceValue(func() string {
	hash, err := argon2id.CreateHash("a password that no account has", &PasswordCost)
	if err != nil {
		panic(err) // no random numbers
	}
	return hash
})

// quoted are well-known phrases that a strength estimate overrates, reduced to letters and digits.
var quoted = []string{
	"correcthorsebatterystaple", "abandonallhopeyewhoenterhere", "allyourbasearebelongtous", "callmeishmael",
	"cogitoergosum",
	"donotgogentleintothatgoodnight", "elementarymydearwatson", "franklymydearidontgiveadamn",
	"houstonwehaveaproblem", "iamyourfather", "illbeback", "ihaveadream", "inthebeginningwastheword",
	"itwasthebestoftimes",
	"knowledgeispower", "loremipsumdolorsitamet", "maytheforcebewithyou", "mynameisinigomontoya", "nevergonnagiveyouup",
	"onceuponatime", "oneringtorulethemall", "opensesame", "theanswertolifetheuniverseandeverything",
	"thequickbrownfoxjumpsoverthelazydog", "tobeornottobethatisthequestion", "weholdthesetruthstobeselfevident",
	"winteriscoming", "youshallnotpass", "youneverwalkalone", "youllneverwalkalone",
}

// famous reports whether a password is a well-known phrase with little added.
func famous(pw string) bool {
	bare := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, pw)
	for _, q := range quoted {
		if strings.Contains(bare, q) && utf8.RuneCountInString(strings.ReplaceAll(bare, q, "")) < ShortestPassword {
			return true
		}
	}
	return false
}
