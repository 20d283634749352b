package verbs_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnnouncementIsShownFirst(t *testing.T) {
	announce := []string{"announce", "v2", "--kind", "api-change", "--subject", "Version 2", "--text", "-"}
	const preview = `{"id":"v2","subject":"API change: Version 2","text":"It is here.\n","recipients":3,"posted":0,"createdAt":null}`
	c, sent := admin(t, http.StatusOK, preview)
	_, errs, err := verb(t, c.URL, "It is here.\n", announce...)
	require.ErrorContains(t, err, "not a terminal: add --yes")
	require.Equal(t, "Subject: API change: Version 2\n\nIt is here.\n\nRecipients: 3.\n", errs)
	require.Equal(t, 1, strings.Count(sent.String(), "POST"))
	require.Contains(t, sent.String(), `"dryRun":true`)

	c, sent = admin(t, http.StatusOK, preview)
	_, _, err = verb(t, c.URL, "It is here.\n", append(announce, "--yes")...)
	require.NoError(t, err)
	require.Equal(t, `POST /operator/v1/announcements ann {"id":"v2","kind":"api-change","subject":"Version 2","text":"It is here.\n","dryRun":false}`, sent.String())

	c, _ = admin(t, http.StatusOK, `{"id":"v2","recipients":3,"posted":2,"createdAt":"2027-01-02T03:04:05Z"}`)
	out, _, err := verb(t, c.URL, "It is here.\n", announce...)
	require.NoError(t, err, "the existing one needs no confirmation")
	require.Equal(t, "announced v2 at 2027-01-02 03:04:05Z: 2 of 3 mails queued; repeat the command to see its progress\n",
		out)

	_, _, err = verb(t, nowhere, "", announce...)
	require.ErrorContains(t, err, "the text is empty")
}
