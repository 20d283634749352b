package up

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
)

const toReview = 150

// curator reviews records through the operator API, as the desk does. Its errors include every
// response that is not a success.
type curator struct {
	adminapi.Client

	recorded  int
	conflicts int
}

// submission returns a review of what the sheet shows.
func submission(sheet api.ReviewSheet) api.ReviewSubmission {
	review := api.Review{
		CheckedAt: sheet.GeneratedAt, Outcome: api.OutcomeVerified, SourceURLs: []string{"https://a.example"},
		Facts: &api.GivenFacts{}, LastEventID: &sheet.LastEventID,
	}
	_ = json.Unmarshal([]byte(apitest.WholeFacts(`{"remote":true}`)), review.Facts)
	return api.ReviewSubmission{Review: review}
}

// open takes the lease of a record, from another curator if takeOver is set, saves a draft and
// returns the sheet. ok is false if another curator keeps the lease.
func (c *curator) open(t *testing.T, id string, takeOver bool) (sheet api.ReviewSheet, ok bool, err error) {
	lease, _, err := c.Lease(t.Context(), id, takeOver)
	if err != nil || lease.Holder != c.Actor {
		return sheet, false, err
	}
	if _, _, err := c.SaveDraft(t.Context(), id, json.RawMessage(fmt.Sprintf("%q", c.Actor))); err != nil {
		return sheet, false, err
	}
	sheet, _, err = c.Sheet(t.Context(), id)
	return sheet, true, err
}

// submit sends a review twice at once, as a double click does. Either both responses have its
// event, or the record has a newer one and the draft stays.
func (c *curator) submit(t *testing.T, sheet api.ReviewSheet) error {
	id, review := sheet.Record.ID, submission(sheet)
	var reports [2]api.ReviewReport
	var errs [2]error
	var both sync.WaitGroup
	for i := range reports {
		both.Go(func() { reports[i], _, errs[i] = c.Review(t.Context(), id, review) })
	}
	both.Wait()
	for i := range errs {
		if errs[i] != nil {
			return errs[i]
		}
	}
	if reports[0].EventID != reports[1].EventID || reports[0].Applied != reports[1].Applied {
		return fmt.Errorf("two events of a double submit of %s: %+v", id, reports)
	}
	if reports[0].Applied {
		c.recorded++
		return nil
	}
	c.conflicts++
	sheet, _, err := c.Sheet(t.Context(), id)
	if err == nil && (sheet.Draft == nil || string(sheet.Draft.Content) != fmt.Sprintf("%q", c.Actor)) {
		err = fmt.Errorf("the draft of %s for %s is lost", c.Actor, id)
	}
	return err
}

// work reviews records of the queue until it is empty. Of every seventh record it takes the lease
// from another holder.
func (c *curator) work(t *testing.T) error {
	for n := 0; ; {
		queue, _, err := c.Queue(t.Context(), "limit", "50")
		if err != nil || len(queue.Records) == 0 {
			return err
		}
		for _, r := range queue.Records {
			n++
			sheet, mine, err := c.open(t, r.ID, n%7 == 0)
			if err == nil && mine && sheet.LastEventID == "" {
				err = c.submit(t, sheet)
			}
			if err != nil {
				return err
			}
		}
	}
}

// Two curators empty one queue in parallel, with lost leases and double submits: each record gets
// one review, and no input is lost.
func TestTwoCuratorsReviewEachRecordOnce(t *testing.T) {
	dir, _, admin, _ := running(t, "none")
	client, err := adminapi.NewClient(admin, dir)
	require.NoError(t, err)
	client.Actor = "ann"
	var file strings.Builder
	for i := range toReview {
		fmt.Fprintf(&file, `{"id":"r-%03d","company":{"name":"R %03[1]d","website":"https://a.example"},"applicationUrl":"https://a.example","category":"online",`+
			`"subcategory":null,"summary":"S.","overview":"","startingCost":"","workModel":"","publishedAt":null,"sources":[{"url":"https://a.example","checkedAt":null}],"visibility":"published"}`+"\n", i)
	}
	imported, _, err := client.Import(t.Context(), strings.NewReader(file.String()), "", false)
	require.NoError(t, err)
	require.Equal(t, toReview, imported.Created, imported.Rejected)

	ann, ben := &curator{Client: client}, &curator{Client: client}
	ann.Actor, ben.Actor = "operator (ann)", "operator (ben)" // as the gateway records users of a shared token
	for i := range 5 {                                        // ben takes over what ann has in work, and submits first
		id := fmt.Sprintf("r-%03d", i*30)
		anns, _, err := ann.open(t, id, false)
		require.NoError(t, err)
		_, mine, err := ben.open(t, id, false)
		require.NoError(t, err)
		require.False(t, mine, "the lease has a holder")
		bens, mine, err := ben.open(t, id, true)
		require.NoError(t, err)
		require.True(t, mine)
		require.NoError(t, ben.submit(t, bens))
		require.NoError(t, ann.submit(t, anns))
	}
	require.Equal(t, 5, ann.conflicts)

	var all sync.WaitGroup
	var failed atomic.Pointer[error]
	for _, c := range []*curator{ann, ben} {
		all.Go(func() {
			if err := c.work(t); err != nil {
				failed.Store(&err)
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		require.NoError(t, *err)
	}
	require.Equal(t, toReview, ann.recorded+ben.recorded)
	events, _, err := client.Events(t.Context(), "limit", "1000")
	require.NoError(t, err)
	seen := map[string]int{}
	for _, e := range events.Events {
		seen[e.Slug]++
	}
	require.Len(t, seen, toReview)
	require.Len(t, events.Events, toReview, "a record has two reviews")
	queue, _, err := client.Queue(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]int{"operator (ann)": ann.recorded, "operator (ben)": ben.recorded}, queue.Today.DoneBy)
}
