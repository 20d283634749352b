package verbs_test

import (
	"bufio"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/cmd/opportunity/internal/verbs"
)

// A person at a terminal is asked before an act that cannot be undone or that others notice.
func TestActsAreConfirmedAtATerminal(t *testing.T) {
	verbs.AtTerminal(t)
	for line, asked := range map[string]string{
		"keys revoke key_1": "This revokes key_1 for good",
		"accounts suspend acc_1 --reason resells": "This suspends acc_1: its next request is rejected, and its person " +
			`gets a mail with the reason "resells"`,
		"listings withdraw a b --reason closed": "This withdraws 2 listings from consumers: a, b.",
		"accounts reset-authenticator a --reason b": "This removes the second factors of a in 24 hours. Its person " +
			`gets a mail with the reason "b"`,
	} {
		args := strings.Fields(line)
		c, sent := admin(t, http.StatusOK, `{"applied":true}`)
		_, errs, err := verb(t, c.URL, "no\n", args...)
		require.ErrorContains(t, err, "nothing was changed", line)
		require.Contains(t, errs, asked)
		_, _, err = verb(t, c.URL, "", args...)
		require.ErrorContains(t, err, "no answer", line)
		require.Empty(t, sent.String(), line)

		_, errs, err = verb(t, c.URL, "", append(args, "--yes")...)
		require.NoError(t, err, line)
		require.Empty(t, errs)
		require.NotEmpty(t, sent.String(), line)

		c, sent = admin(t, http.StatusOK, `{"applied":true}`)
		_, _, err = verb(t, c.URL, "yes\n", args...)
		require.NoError(t, err, line)
		require.NotEmpty(t, sent.String(), line)
	}
	for _, line := range []string{
		"accounts suspend acc_1", "accounts resume acc_1", "accounts reset-authenticator acc_1", "listings withdraw a",
		"accounts suspend acc_1 --reason=",
	} {
		c, sent := admin(t, http.StatusOK, `{"applied":true}`)
		_, _, err := verb(t, c.URL, "yes\n", strings.Fields(line)...)
		require.ErrorContains(t, err, "missing --reason", line)
		require.Empty(t, sent.String(), line)
	}
}

// Scripts have no terminal, often /dev/null instead.
func TestScriptsAreNotAsked(t *testing.T) {
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	for _, line := range []string{"keys revoke key_1", "accounts suspend acc_1 --reason x",
		"listings withdraw a --reason x"} {
		c, sent := admin(t, http.StatusOK, `{"applied":true}`)
		_, errs, err := verbFrom(t, c.URL, null, strings.Fields(line)...)
		require.NoError(t, err, line)
		require.NotEmpty(t, sent.String(), line)
		require.Empty(t, errs, line)
	}
}

func TestAgree(t *testing.T) {
	for answers, want := range map[string]string{
		"yes\n": "", "Y\n": "", "what?\n\nyes\n": "", "no\n": "nothing was changed", "": "no answer",
		"sure": "no answer: add --yes",
	} {
		var out strings.Builder
		err := verbs.Agree(bufio.NewReader(strings.NewReader(answers)), &out)
		if want == "" {
			require.NoError(t, err, answers)
		} else {
			require.ErrorContains(t, err, want, answers)
		}
	}
}
