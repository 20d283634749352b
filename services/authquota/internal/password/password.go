// Package password decides which passwords are taken, and keeps them as argon2id hashes.
package password

import (
	"context"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/alexedwards/argon2id"
	"github.com/ccojocar/zxcvbn-go"
)

// Lengths in characters. The longest keeps the work of judging a password small.
const (
	Shortest = 12
	Longest  = 128
)

// Refusal is why a password is not taken, as a sentence for the person who chose it. It never quotes the password.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// What Check answers.
const (
	TooShort  Refusal = "Use at least 12 characters. A few words in a row are fine."
	TooLong   Refusal = "Use at most 128 characters."
	NotText   Refusal = "Use characters that a keyboard can type."
	IsAddress Refusal = "Do not use your e-mail address as the password."
	TooEasy   Refusal = "This password is among the first that others would try. Choose a less common one; a few unrelated words are fine."
)

// good is the least score, of 0 to 4: more than ten thousand million guesses.
const good = 4

// ours are words that people put into a password because of where they are.
var ours = []string{"opportunity", "opportunities", "opportunity data api", "api", "oda"}

// Check returns nil for a password that may be used with this e-mail address, or a Refusal. There are no rules about kinds of
// characters: what counts is how soon it would be guessed by somebody who tries common passwords, words, names, dates, keyboard
// walks, this address, the name of this service and
// what everybody quotes. Whether a password was found in a leak elsewhere is not asked: nobody is told of passwords, not in part either.
func Check(pw, email string) error {
	switch n := utf8.RuneCountInString(pw); {
	case !utf8.ValidString(pw) || strings.ContainsFunc(pw, unicode.IsControl):
		return NotText
	case n < Shortest:
		return TooShort
	case n > Longest:
		return TooLong
	case strings.EqualFold(strings.TrimSpace(pw), strings.TrimSpace(email)):
		return IsAddress
	}
	theirs := strings.FieldsFunc(strings.ToLower(email), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if famous(pw) || zxcvbn.PasswordStrength(pw, slices.Concat(ours, theirs, []string{strings.ToLower(email)})).Score < good {
		return TooEasy
	}
	return nil
}

// params are OWASP's for argon2id. They are written out because the library's own take the number of CPUs, so that hashes of two
// machines would differ.
var params = &argon2id.Params{Memory: 19 * 1024, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}

// slots bounds how many hashes are computed at a time in this process, and so the memory for them: a flood of sign-ins waits here.
var slots = make(chan struct{}, 4)

// turn waits for a slot until ctx ends.
func turn(ctx context.Context) (leave func(), err error) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Hash makes what is kept of a password. The only error is that ctx ended while it waited for its turn.
func Hash(ctx context.Context, pw string) (string, error) {
	leave, err := turn(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	return argon2id.CreateHash(pw, params)
}

// Verify reports whether hash was made of pw, and whether it was made with less than what is used today, so that it should be made
// anew now that the password is known. An empty hash, of somebody who has no password or is nobody, takes the same time as any other.
func Verify(ctx context.Context, pw, hash string) (ok, outdated bool, err error) {
	nobody := hash == ""
	if nobody {
		hash = dummy()
	}
	leave, err := turn(ctx)
	if err != nil {
		return false, false, err
	}
	defer leave()
	ok, used, err := argon2id.CheckHash(pw, hash)
	if err != nil || nobody {
		return false, false, err
	}
	return ok, *used != *params, nil
}

// Dummy does the work of Verify for a person whom nobody knows, so that time does not tell.
func Dummy(ctx context.Context, pw string) error {
	_, _, err := Verify(ctx, pw, "")
	return err
}

var dummy = sync.OnceValue(func() string {
	hash, err := argon2id.CreateHash("nobody has this password", params)
	if err != nil {
		panic(err) // no random numbers
	}
	return hash
})
