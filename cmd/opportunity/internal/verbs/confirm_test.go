package verbs_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/cmd/opportunity/internal/verbs"
	"opportunity.internal/pkg/storetest"
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
		for answer, want := range map[string]string{"no\n": "nothing was changed", "\n": "nothing was changed",
			"what?\n": "nothing was changed", "": "no answer", "yes\n": "", "Y\n": "", "--yes": ""} {
			args := strings.Fields(line)
			if answer == "--yes" {
				args = append(args, answer)
			}
			c, sent := admin(t, http.StatusOK, `{"applied":true}`)
			_, errs, err := verb(t, c.URL, answer, args...)
			require.Contains(t, fmt.Sprint(err), want, line)
			require.Equal(t, want == "", err == nil, line)
			require.Equal(t, want == "", sent.Len() > 0, line)
			require.Equal(t, answer != "--yes", strings.Contains(errs, asked), errs)
		}
	}
	for _, line := range []string{"accounts suspend a", "accounts resume a", "accounts reset-authenticator a",
		"listings withdraw a", "accounts suspend a --reason="} {
		_, _, err := verb(t, nowhere, "yes\n", strings.Fields(line)...)
		require.ErrorContains(t, err, "missing --reason", line)
	}
}

// Scripts have no terminal, often /dev/null instead.
func TestScriptsAreNotAsked(t *testing.T) {
	null := storetest.Must(os.Open(os.DevNull))(t)
	defer null.Close()
	c, sent := admin(t, http.StatusOK, "")
	_, errs, err := verbFrom(t, c.URL, null, "keys", "revoke", "key_1")
	require.NoError(t, err)
	require.NotEmpty(t, sent.String())
	require.Empty(t, errs)
}
