package people_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/services/authquota/internal/people"
)

func TestCodes(t *testing.T) {
	form := regexp.MustCompile(`^([0-9a-hjkmnp-tv-z]{4}-){5}[0-9a-hjkmnp-tv-z]{4}$`)
	seen := map[string]bool{}
	for range 20 {
		codes := people.GenerateRecoveryCodes()
		require.Len(t, codes, people.RecoveryCodeCount)
		for _, code := range codes {
			require.Regexp(t, form, code)
			require.True(t, people.IsRecoveryCode(code))
			require.False(t, seen[people.HashRecoveryCode(code)])
			seen[people.HashRecoveryCode(code)] = true
		}
	}
}

func TestHowACodeIsTypedDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		code := people.GenerateRecoveryCodes()[0]
		typed := strings.ReplaceAll(code, "-", rapid.SampledFrom([]string{"", " ", "-", " - ", "\u00a0", "\u2011"}).Draw(t, "between"))
		typed = strings.ReplaceAll(typed, "0", rapid.SampledFrom([]string{"0", "o", "O"}).Draw(t, "zero"))
		typed = strings.ReplaceAll(typed, "1", rapid.SampledFrom([]string{"1", "l", "I", "i"}).Draw(t, "one"))
		if rapid.Bool().Draw(t, "upper case") {
			typed = strings.ToUpper(typed)
		}
		require.Equal(t, people.HashRecoveryCode(code), people.HashRecoveryCode(typed), typed)
		require.True(t, people.IsRecoveryCode(typed))
	})
}

func TestWhatIsNoCode(t *testing.T) {
	code := people.GenerateRecoveryCodes()[0]
	for _, other := range []string{"", "123456", code[:len(code)-1], code + "0", "u" + code[1:], code[5:]} {
		require.NotEqual(t, people.HashRecoveryCode(code), people.HashRecoveryCode(other), other)
		require.False(t, people.IsRecoveryCode(other), other)
	}
	require.NotContains(t, people.HashRecoveryCode(code), code[:4]+code[5:9])
}

// Codes stored by a released version stay valid.
func TestGolden(t *testing.T) {
	require.Equal(t, "fc8a67da9d7cd16d995c79f0b5b56f334db9020dfb317f417d5dce6c815c14a8", people.HashRecoveryCode("0123-4567-89ab-cdef-ghjk-mnpq"))
}
