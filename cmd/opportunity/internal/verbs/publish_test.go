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
	c, _ := admin(t, http.StatusOK, `{"applied":true,"updated":1,"published":1,"refused":[]}`)
	_, _, err := verb(t, c.URL, "", "listings", "publish", "a", "b")
	require.NoError(t, err, "only one of them would become public")

	c, sent := admin(t, http.StatusOK,
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
