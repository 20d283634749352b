package apikey

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestOlderForm(t *testing.T) {
	none, err := ParseOlderForm("")
	require.NoError(t, err)
	require.False(t, none.Matches("sk-1"))

	form, err := ParseOlderForm(`sk-[0-9]+|pk-[a-z]{4}`)
	require.NoError(t, err)
	for token, matches := range map[string]bool{
		"sk-1": true, "pk-abcd": true, "xsk-1": false, "sk-1x": false, "sk-1|pk-abcd": false, "pk-abcde": false, "": false, "sk-1\n": false,
		"sk-" + strings.Repeat("1", maxOlder-3): true, "sk-" + strings.Repeat("1", maxOlder-2): false,
	} {
		require.Equal(t, matches, form.Matches(token), "%q", token)
	}
}

func TestParseOlderFormRejects(t *testing.T) {
	for pattern, why := range map[string]string{
		`(`:                               "missing closing",
		`a)|(b`:                           "unexpected",
		`[0-9]*`:                          "empty",
		strings.Repeat("a", maxPattern+1): "at most",
		`.+`:                              "oda_live_",
		`\S{59}`:                          "oda_live_",
		`[A-Za-z0-9_]{40,80}`:             "oda_live_",
		`(?i)ODA_TEST_.*`:                 "oda_test_",
		`oda_live_A.*`:                    "oda_live_",
		`oda_test_[0-9]{43}_[a-z]{6}`:     "oda_test_",
		`\boda_live_x+_\w{6}\b`:           "oda_live_",
		`(?m)^oda_(live|test)_.{50}$`:     "oda_live_",
		`sk-.*|oda_test_(a|b|cd)+_aaaaaa`: "oda_test_",
		`[^-]+`:                           "oda_live_",
		`(?s).{59}`:                       "oda_live_",
	} {
		_, err := ParseOlderForm(pattern)
		require.ErrorContains(t, err, why, pattern)
	}
	for _, pattern := range []string{
		`sk-[a-z]+`, `oda_beta_.*`, `oda_live_.{49}`, `oda_live_.{51}`, `.{58}`, `.{60,}`, `[0-9a-f]{64}`, `oda_live_[^_]+`, `oda_live_.{43}-.{6}`,
	} {
		_, err := ParseOlderForm(pattern)
		require.NoError(t, err, pattern)
	}
}

// An accepted pattern matches no generated key; a pattern derived from a key is rejected.
func TestOlderFormMatchesNoGeneratedKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.SampledFrom([]string{Live, Test}).Draw(t, "prefix")
		key := Generate(prefix).Reveal()
		cut := rapid.IntRange(0, len(key)).Draw(t, "cut")
		rest := rapid.SampledFrom([]string{`.{%d}`, `\w{%d}`, `[0-9A-Za-z_]{%d}`, `[a-z]{%d}`}).Draw(t, "rest")
		pattern := regexp.QuoteMeta(key[:cut]) + fmt.Sprintf(rest, len(key)-cut)
		form, err := ParseOlderForm(pattern)
		if err == nil {
			require.False(t, form.Matches(key), pattern)
		}
		if !strings.HasPrefix(rest, `[a-z]`) {
			require.Error(t, err, pattern)
		}
	})
}

func TestCouldMatch(t *testing.T) {
	form, err := ParseOlderForm(`jb-[0-9]{4}-[a-z]{4,60}|ab[c-f]`)
	require.NoError(t, err)
	for known, could := range map[[2]string]bool{
		{"jb-", "wxyz"}: true, {"", "wxyz"}: true, {"jb-0", "wxyz"}: true, {"jb-0123-wx", "wxyz"}: true, {"ab", "abcd"}: false, {"abc", "abc"}: true,
		{"jb-", "wx9z"}: false, {"sk-", "wxyz"}: false, {"jb-a", "wxyz"}: false, {"jb-0123-Wx", "wxyz"}: false,
	} {
		require.Equal(t, could, form.CouldMatch(known[0], known[1]), "%v", known)
	}
	require.False(t, OlderForm{}.CouldMatch("jb-", "wxyz"))
}
