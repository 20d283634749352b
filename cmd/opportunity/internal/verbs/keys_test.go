package verbs_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

const issuedKey = `{"id":"key_1","key":"oda_live_x","account":"acc_1","tier":"developer","expiresAt":"2027-11-20T10:00:00Z"}`

func TestKeyOfExistingAccountNeedsNoTier(t *testing.T) {
	c, sent := admin(t, http.StatusCreated, issuedKey)
	out, _, err := verb(t, c.URL, "", "keys", "issue", "--account", "acc_1", "--use-case", "staging")
	require.NoError(t, err)
	require.Equal(t, `POST /operator/v1/keys ann {"useCase":"staging","account":"acc_1","test":false}`, sent.String())
	require.Regexp(t, `tier +developer\n`, out)
}

func TestKeyOfNewAccountNeedsTier(t *testing.T) {
	_, _, err := verb(t, nowhere, "", "keys", "issue", "--use-case", "staging")
	require.ErrorContains(t, err, "missing --tier")
	require.ErrorContains(t, err, "with --account, the key has the account's tier")
}

// Repeating a decision returns the first one, so the command says whose decision it is.
func TestDecisionShowsOperatorAndTime(t *testing.T) {
	decided := `{"id":"req_1","state":"collected","decidedBy":"bea","decidedAt":"2026-11-20T10:00:00Z"}`
	c, sent := admin(t, http.StatusOK, decided)
	out, _, err := verb(t, c.URL, "", "keys", "approve", "req_1")
	require.NoError(t, err)
	require.Equal(t, "POST /operator/v1/keys/requests/req_1/approve ann ", sent.String())
	require.Equal(t, "collected: req_1 (by bea, 2026-11-20 10:00:00Z)\n", out)

	c, sent = admin(t, http.StatusOK, decided)
	out, _, err = verb(t, c.URL, "", "keys", "decline", "req_1", "--reason", "no", "--output", "json")
	require.NoError(t, err)
	require.Equal(t, `POST /operator/v1/keys/requests/req_1/decline ann {"reason":"no"}`, sent.String())
	require.JSONEq(t, decided, out)
}

func TestExamplesOfSuspendAndResumeAreTheirOwn(t *testing.T) {
	for verbName, reason := range map[string]string{"suspend": "resells our data", "resume": "settled by mail"} {
		out, _, err := verb(t, nowhere, "", "accounts", verbName, "--help")
		require.NoError(t, err)
		require.Contains(t, out,
			"opportunity accounts "+verbName+` acc_0199a1c26f0e7a51b0a71d1f5a3b9c55 --reason "`+reason+`"`)
	}
}

func TestKeyImportWarnsOnStandardError(t *testing.T) {
	report := `{"applied":true,"created":1,"updated":0,"unchanged":0,"refused":[],"omitted":0,"warnings":["OPPORTUNITY_OLDER_KEYS is not set"]}`
	for output, want := range map[string]string{"text": "created 1, unchanged 0\n", "json": report + "\n"} {
		c, _ := admin(t, http.StatusOK, report)
		out, errs, err := verb(t, c.URL, "{}", "keys", "import", "-", "--output", output)
		require.NoError(t, err)
		require.Equal(t, want, out)
		require.Equal(t, "warning: OPPORTUNITY_OLDER_KEYS is not set\n", errs)
	}
}
