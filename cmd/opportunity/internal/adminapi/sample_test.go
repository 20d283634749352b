package adminapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/eventfile"
	"opportunity.internal/pkg/listingfile"
)

var now = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)

func load(t *testing.T) []adminapi.SampleRecord {
	t.Helper()
	records, err := adminapi.LoadSample(now)
	require.NoError(t, err)
	return records
}

// A sample record must not look like a real platform.
func TestRecordsAreFictional(t *testing.T) {
	records := load(t)
	require.GreaterOrEqual(t, len(records), 60)
	addresses := regexp.MustCompile(`https?://[^"]+`)
	ids, canadian := map[string]bool{}, 0
	for _, r := range records {
		id := r.ID()
		require.True(t, api.ValidSlug(id), id)
		require.False(t, ids[id], "duplicate id %s", id)
		ids[id] = true
		require.Regexp(t, `\(sample\)$`, r.Listing["company"].(map[string]any)["name"])
		require.Contains(t, r.Listing["summary"], "Sample record: ")
		whole, err := json.Marshal(r)
		require.NoError(t, err)
		for _, address := range addresses.FindAllString(string(whole), -1) {
			u, err := url.Parse(address)
			require.NoError(t, err)
			require.True(t, strings.HasSuffix(u.Hostname(), ".example"), address)
		}
		if strings.Contains(fmt.Sprint(r.Listing["facts"]), "country:CA ") {
			canadian++
		}
	}
	require.Greater(t, canadian, len(records)*9/10)
}

func TestDatesAreRelativeToTheImport(t *testing.T) {
	event := func(at time.Time, i int) api.VerificationEvent {
		records, err := adminapi.LoadSample(at)
		require.NoError(t, err)
		var e api.VerificationEvent
		r := records[slices.IndexFunc(records, func(r adminapi.SampleRecord) bool { return r.ID() == "aurora-captions" })]
		line, err := json.Marshal(r.Events[i])
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(line, &e))
		return e
	}
	for _, at := range []time.Time{now, now.AddDate(0, 3, 1), time.Date(2028, 3, 1, 0, 0, 0, 0, time.UTC)} {
		require.Equal(t, at.AddDate(0, 0, -3), event(at, 0).CheckedAt)
		require.Equal(t, at.AddDate(0, 0, -1).Add(-6*time.Hour), event(at, 1).CheckedAt)
	}
	require.Equal(t, "https://auroracaptions.example/apply", event(now, 0).SourceURLs[0])
}

// An interrupted first start repeats the import with the same time; the repetition must not change
// anything.
func TestSameTimeGivesSameFiles(t *testing.T) {
	a, err := adminapi.SampleAt(now)
	require.NoError(t, err)
	b, err := adminapi.SampleAt(now)
	require.NoError(t, err)
	require.Equal(t, a, b)

	records := load(t)
	require.Equal(t, len(records), bytes.Count(a.Listings, []byte("\n")))
	candidates := 0
	for _, r := range records {
		require.Equal(t, r.Candidate, r.Shows == "private", r.ID())
		if r.Candidate {
			candidates++
		}
	}
	require.Positive(t, candidates)
	require.Equal(t, len(records)-candidates, bytes.Count(a.Listings, []byte(`"visibility":"published"`)))
}

func TestEventsAreValid(t *testing.T) {
	s, err := adminapi.SampleAt(now)
	require.NoError(t, err)
	file, err := eventfile.Read(bytes.NewReader(s.Events), now, 10)
	require.NoError(t, err)
	require.Empty(t, file.Rejected)
	for _, line := range file.Lines {
		e := line.Event
		require.False(t, e.CheckedAt.After(now), e.Slug)
		if e.Facts != nil {
			require.NotEmpty(t, e.Facts.CountryEligibility, e.Slug)
		}
	}
}

// Every record that is not verified gives the reason for its status.
func TestEveryStatusIsExplained(t *testing.T) {
	for _, r := range load(t) {
		known := []string{"private", string(api.Verified), string(api.Unverified), string(api.Stale), string(api.NeedsReview)}
		require.Contains(t, known, r.Shows, r.ID())
		if r.Shows != string(api.Verified) {
			require.NotEmpty(t, r.Because, fmt.Sprintf("%s is %s", r.ID(), r.Shows))
		}
	}
}

func TestListingsAreValid(t *testing.T) {
	s, err := adminapi.SampleAt(now)
	require.NoError(t, err)
	for _, lines := range [][]byte{s.Listings, s.Edits} {
		file, err := listingfile.Read(bytes.NewReader(lines), now, 10)
		require.NoError(t, err)
		require.Empty(t, file.Rejected)
	}
}
