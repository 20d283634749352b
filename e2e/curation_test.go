package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

// TestReviewsFromTheListToTheReview lists a due listing and reviews it, and checks that a dry run
// shows which change makes it due again.
func TestReviewsFromTheListToTheReview(t *testing.T) {
	t.Parallel()
	u := upWith(t, filepath.Join(t.TempDir(), "data"), "none")
	example := u.verb(t, "", "listings", "schema", "--example")
	require.Contains(t, u.verb(t, example, "listings", "import", "--dry-run", "-"), "would create 1, update 0")
	u.verb(t, example, "listings", "import", "-")
	require.Contains(t, u.verb(t, "", "reviews", "due"), "0 due", "a candidate is not")
	u.verb(t, "", "listings", "publish", "--all", "--yes")
	require.Contains(t, u.verb(t, "", "reviews", "due"), "never reviewed, published")

	out := u.verb(t, "", "reviews", "record", "maple-transcripts", "--outcome", "verified",
		"--set", `languages=["English","French"]`, "--yes", "--source", "https://maple-transcripts.example/who-can-apply")
	require.Contains(t, out, "appended 1, duplicates 0")
	eventually(t, "the review counts", func() bool { return strings.Contains(u.verb(t, "", "reviews", "due"), "0 due") })
	require.Contains(t, u.verb(t, "", "reviews", "due", "--within", "14d"), "stale after")

	// one fact changes, the others stay as they are
	u.verb(t, "", "reviews", "record", "maple-transcripts", "--outcome", "verified", "--set", "remote=false", "--yes",
		"--source", "https://maple-transcripts.example/jobs")
	then := verbJSON[api.HistorySnapshot](t, u.deployment, "history", "show", "maple-transcripts")
	require.False(t, *then.Facts.Remote)
	require.Equal(t, []string{"English", "French"}, then.Facts.Languages)
	require.NotNil(t, then.Facts.Pay)
	_, errs, code := u.tryVerb(t,
		`{"slug":"maple-transcripts","checkedAt":"2026-01-02T00:00:00Z","checkType":"review","outcome":"closed","lastEventId":"`+
			then.Events[1].ID+`"}`, "events", "append", "-")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "maple-transcripts: review verified, checked ")
	require.Contains(t, errs, "Nothing was appended.")

	edited := strings.Replace(example, `"startingCost":"None"`, `"startingCost":"5 CAD"`, 1)
	preview := u.verb(t, edited, "listings", "import", "--dry-run", "-")
	require.Contains(t, preview, "~ maple-transcripts  turns needs-review\n    startingCost: \"None\" -> \"5 CAD\"\n")
	require.Contains(t, u.verb(t, "", "reviews", "due"), "0 due", "nothing was changed")
	u.verb(t, edited, "listings", "import", "-")
	due := verbJSON[api.DueList](t, u.deployment, "reviews", "due")
	require.Len(t, due.Records, 1)
	require.Equal(t, api.NeedsReview, due.Records[0].Status)
	require.Equal(t, api.DueEdit, due.Records[0].Reasons[0].Why)
	require.Equal(t, []string{"startingCost"}, due.Records[0].Reasons[0].Fields)

	u.verb(t, "", "reviews", "record", "maple-transcripts", "--outcome", "closed", "--note", "Gone.", "--source",
		"https://maple-transcripts.example/")
	eventually(t, "closed for now, it is looked at again later", func() bool {
		return strings.Contains(u.verb(t, "", "reviews", "due"), "0 due")
	})
}
