package credential_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/alexedwards/argon2id"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/services/authquota/internal/credential"
	"opportunity.internal/services/authquota/internal/testkit"
)

const email = "ada.lovelace@example.org"

func TestCheck(t *testing.T) {
	for pw, want := range map[string]error{
		"correct horse battery staple":    credential.TooEasy,
		"correcthorsebatterystaple":       credential.TooEasy,
		"Correct-Horse-Battery-Staple-1!": credential.TooEasy,
		"You shall not pass! 2026":        credential.TooEasy,
		"liverpoolfc1892":                 credential.TooEasy,
		"ill be back kX9mQ2vL5pR":         credential.TooEasy, // adds too little to a phrase
		"ill be back kX9mQ2vL5pRt":        nil,
		"correct mule battery walnut":     nil,
		"walnut-harbour-42":               nil,
		"kX9#mQ2$vL5p":                    nil,
		"über große Straßenlaternen":      nil,
		"もしもし、これは秘密です":                    nil,
		" spaces at both ends count ":     nil,
		strings.Repeat("kX9#mQ2$", 16):    nil,
		"":                                credential.TooShort,
		"kX9#mQ2$vL5":                     credential.TooShort,
		"日本日本日本日本日本日":                     credential.TooShort,
		strings.Repeat("kX9#mQ2$", 17):    credential.TooLong,
		"correct horse\nbattery":          credential.NotText,
		"correct horse \x00battery":       credential.NotText,
		"correct horse \xff battery":      credential.NotText,
		email:                             credential.IsAddress,
		" Ada.Lovelace@Example.org ":      credential.IsAddress,
		"ada.lovelace":                    credential.TooEasy,
		"lovelace1815!":                   credential.TooEasy,
		"Opportunity2026":                 credential.TooEasy,
		"password1234":                    credential.TooEasy,
		"P@ssw0rd1234":                    credential.TooEasy,
		"qwertyuiop12":                    credential.TooEasy,
		"123456789012":                    credential.TooEasy,
		"aaaaaaaaaaaaaaaa":                credential.TooEasy,
		"abcdefghijklmnop":                credential.TooEasy,
		"iloveyouforever":                 credential.TooEasy,
		"Summer2026!!":                    credential.TooEasy,
		strings.Repeat("passwordabcd", 9): credential.TooEasy,
	} {
		require.Equal(t, want, credential.CheckPassword(pw, email), "%q", pw)
	}
}

// No list of words has these parts of the address.
func TestPartsOfTheAddressAreEasy(t *testing.T) {
	const pw = "quexvillop-branti7far"
	require.NoError(t, credential.CheckPassword(pw, email))
	require.Equal(t, credential.TooEasy, credential.CheckPassword(pw, "Quexvillop.Branti7far@example.org"))
}

func TestRejectionNeverQuotesThePassword(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pw := rapid.StringN(0, 140, 600).Draw(t, "password")
		if err := credential.CheckPassword(pw, email); err != nil && len(pw) > 8 {
			require.NotContains(t, err.Error(), pw)
		}
	})
}

func TestHashAndVerify(t *testing.T) {
	ctx := t.Context()
	credential.PasswordCost = testkit.ProductionCost
	hash, err := credential.HashPassword(ctx, "walnut-harbour-42")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(hash, "$argon2id$v=19$m=19456,t=2,p=1$"), hash)
	again, err := credential.HashPassword(ctx, "walnut-harbour-42")
	require.NoError(t, err)
	require.NotEqual(t, hash, again, "a salt for each")
	for pw, want := range map[string]bool{"walnut-harbour-42": true, "Walnut-harbour-42": false, "walnut-harbour-42 ": false, "": false} {
		ok, outdated, err := credential.VerifyPassword(ctx, pw, hash)
		require.NoError(t, err)
		require.Equal(t, want, ok, "%q", pw)
		require.False(t, outdated)
	}
	for _, broken := range []string{"plain", "$argon2id$v=19$m=19456", strings.Replace(hash, "argon2id", "argon2i", 1)} {
		ok, _, err := credential.VerifyPassword(ctx, "walnut-harbour-42", broken)
		require.Error(t, err)
		require.False(t, ok)
	}
}

func TestNormalFormOfAPasswordDoesNotMatter(t *testing.T) {
	const nfc, nfd = "über große Straßenlaternen", "u\u0308ber\u00a0große Straßenlaternen"
	for _, first := range []string{nfc, nfd} {
		hash, err := credential.HashPassword(t.Context(), first)
		require.NoError(t, err)
		for _, typed := range []string{nfc, nfd} {
			ok, _, err := credential.VerifyPassword(t.Context(), typed, hash)
			require.NoError(t, err)
			require.True(t, ok)
		}
	}
	require.Equal(t, credential.TooShort, credential.CheckPassword(strings.Repeat("e\u0301", 11), email), "two characters are counted as one")
}

func TestAHashOfEarlierFiguresIsOutdated(t *testing.T) {
	weak, err := argon2id.CreateHash("walnut-harbour-42", &argon2id.Params{Memory: 8 * 1024, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32})
	require.NoError(t, err)
	ok, outdated, err := credential.VerifyPassword(t.Context(), "walnut-harbour-42", weak)
	require.NoError(t, err)
	require.True(t, ok)
	require.True(t, outdated)
}

func TestEmptyHashNeverVerifies(t *testing.T) {
	for _, pw := range []string{"", "nobody has this password", "walnut-harbour-42"} {
		ok, outdated, err := credential.VerifyPassword(t.Context(), pw, "")
		require.NoError(t, err)
		require.False(t, ok)
		require.False(t, outdated)
	}
}

func TestCancelledVerifyMatchesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 { // with a free slot and an ended context, either may win
		if ok, outdated, err := credential.VerifyPassword(ctx, "walnut-harbour-42", ""); err != nil {
			require.ErrorIs(t, err, context.Canceled)
			require.False(t, ok || outdated)
			return
		}
	}
	require.Fail(t, "no call ended with its context")
}

// Excess callers wait for a slot and leave when their context ends. Afterwards all slots are free
// again.
func TestExcessCallersWait(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() { _, _ = credential.HashPassword(ctx, "walnut-harbour-42") })
	}
	cancel()
	all.Wait()
	_, err := credential.HashPassword(t.Context(), "walnut-harbour-42")
	require.NoError(t, err)
	for range 3 { // with a free slot and an ended context, either may win
		if _, err = credential.HashPassword(ctx, "x"); err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
	}
}
