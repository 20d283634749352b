package apikey

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOlderForm(t *testing.T) {
	none, err := ParseOlderForm("")
	require.NoError(t, err)
	require.False(t, none.Matches("sk-1"))

	form, err := ParseOlderForm(`sk-[0-9]+|pk-[a-z]{4}`)
	require.NoError(t, err)
	for token, matches := range map[string]bool{
		"sk-1": true, "pk-abcd": true, "xsk-1": false, "sk-1x": false, "sk-1|pk-abcd": false, "pk-abcde": false, "": false,
		"sk-1\n":                                false,
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
		`oda_live_A.*`:                    "oda_",
		`oda_beta_.*`:                     "oda_",
	} {
		_, err := ParseOlderForm(pattern)
		require.ErrorContains(t, err, why, pattern)
	}
}

func TestOlderFormMatchesNoKeyThatBeginsLikeOurs(t *testing.T) {
	for _, pattern := range []string{
		`.+`, `(?s).{59}`, `[A-Za-z0-9_]{40,80}`, `(?i)ODA_TEST_.*`, `\boda_live_\w+`, `(?m)^oda_(live|test)_.{50}$`,
		`sk-.*|oda_.*`, `[^-]+`,
	} {
		form, err := ParseOlderForm(pattern)
		require.NoError(t, err, pattern)
		for _, prefix := range []string{Live, Test} {
			key := Generate(prefix).Reveal()
			require.False(t, form.Matches(key), pattern)
			require.False(t, form.Matches(key[:len(key)-1]), pattern)
			require.False(t, form.CouldMatch(prefix), pattern)
		}
	}
	form, err := ParseOlderForm(`.+`)
	require.NoError(t, err)
	require.True(t, form.Matches("od-1"))
	require.True(t, form.Matches("ODA_1"))
}

func TestCouldMatch(t *testing.T) {
	form, err := ParseOlderForm(`jb-[0-9]{4}-[a-z]{4,60}`)
	require.NoError(t, err)
	for prefix, could := range map[string]bool{"jb-": true, "": true, "j": true, "jb-0": true, "sk-": false, "jc": false} {
		require.Equal(t, could, form.CouldMatch(prefix), prefix)
	}
	either, err := ParseOlderForm(`jb-[0-9]{4}|sk-.*`)
	require.NoError(t, err)
	require.True(t, either.CouldMatch("pk-"), "the forms have no common prefix")
	require.False(t, OlderForm{}.CouldMatch("jb-"))
}
