package verbs_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/cmd/opportunity/internal/verbs"
)

func TestPublishingManyAsksFirst(t *testing.T) {
	const many = `{"applied":false,"updated":3,"published":3,"neverReviewed":2,"refused":[]}`
	for _, what := range [][]string{{"--all"}, {"a", "b", "c"}} {
		c, sent := admin(t, http.StatusOK, many)
		_, errs, err := verb(t, c.URL, "yes\n", append([]string{"listings", "publish"}, what...)...)
		require.ErrorContains(t, err, "not a terminal: add --yes")
		require.Equal(t, "3 listings would become public, 2 of them never reviewed.\n", errs)
		require.Equal(t, 1, strings.Count(sent.String(), "POST"), "nothing was published")
		require.Contains(t, sent.String(), "/listings/publish?dryRun=true ")
	}
	c, sent := admin(t, http.StatusOK, `{"applied":true,"updated":3,"refused":[]}`)
	out, _, err := verb(t, c.URL, "", "listings", "publish", "--all", "--yes")
	require.NoError(t, err)
	require.Equal(t, "published 3, unchanged 0\n", out)
	require.Equal(t, `POST /operator/v1/listings/publish ann {"all":true}`, sent.String())

	c, sent = admin(t, http.StatusOK, `{"applied":true,"updated":1,"published":1,"refused":[]}`)
	_, _, err = verb(t, c.URL, "", "listings", "publish", "a")
	require.NoError(t, err)
	require.Equal(t, `POST /operator/v1/listings/publish ann {"ids":["a"]}`, sent.String(),
		"one listing needs no confirmation")
	_, _, err = verb(t, c.URL, "", "listings", "publish", "a", "b")
	require.NoError(t, err, "only one of them would become public")

	c, sent = admin(t, http.StatusOK,
		`{"refused":[{"line":2,"id":"b","problems":[{"path":"sources","message":"a published listing needs at least one"}]}]}`)
	_, errs, err := verb(t, c.URL, "", "listings", "publish", "a", "b")
	require.ErrorContains(t, err, "nothing was changed")
	require.Contains(t, errs, "b: sources: a published listing needs at least one")
	require.Equal(t, 1, strings.Count(sent.String(), "POST"))
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

func TestImportAsksBeforeItPublishesSeveral(t *testing.T) {
	c, sent := admin(t, http.StatusOK, `{"applied":false,"created":3,"published":3,"neverReviewed":2,"refused":[]}`)
	_, errs, err := verb(t, c.URL, "{}", "listings", "import", "-")
	require.ErrorContains(t, err, "add --yes")
	require.Contains(t, errs, "3 listings would become public, 2 of them never reviewed.")
	require.Contains(t, sent.String(), "POST /operator/v1/listings/import?ask=true")
	sent.Reset()
	_, _, _ = verb(t, c.URL, "{}", "listings", "import", "--yes", "-")
	require.NotContains(t, sent.String(), "ask")
}

func TestImportReportsPublishedAndWithdrawn(t *testing.T) {
	c, _ := admin(t, http.StatusOK,
		`{"applied":true,"created":3,"published":2,"neverReviewed":1,"keptWithdrawn":["a","b"],"refused":[]}`)
	out, _, err := verb(t, c.URL, "{}", "listings", "import", "-")
	require.NoError(t, err)
	require.Equal(t, `created 3, updated 0, unchanged 0; published 2, 1 of them never reviewed
2 stay withdrawn although the file has them as published: a, b
publish them again with: opportunity listings publish ID...
`, out)
}
