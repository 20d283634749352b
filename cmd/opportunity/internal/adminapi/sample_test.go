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
	"opportunity.internal/pkg/storetest"
)

var now = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)

// A sample record must not look like a real platform. TestTheSampleShowsEverything imports all of
// them.
func TestRecordsAreFictionalAndExplained(t *testing.T) {
	records := storetest.Must(adminapi.LoadSample(now))(t)
	require.GreaterOrEqual(t, len(records), 60)
	addresses := regexp.MustCompile(`https?://[^"]+`)
	canadian := 0
	for _, r := range records {
		require.Regexp(t, `\(sample\)$`, r.Listing["company"].(map[string]any)["name"])
		require.Contains(t, r.Listing["summary"], "Sample record: ")
		require.Equal(t, r.Candidate, r.Shows == "private", r.ID())
		require.True(t, r.Shows == string(api.Verified) || r.Because != "", "why is %s %s?", r.ID(), r.Shows)
		whole := storetest.Must(json.Marshal(r))(t)
		for _, address := range addresses.FindAllString(string(whole), -1) {
			u := storetest.Must(url.Parse(address))(t)
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
		records := storetest.Must(adminapi.LoadSample(at))(t)
		var e api.VerificationEvent
		r := records[slices.IndexFunc(records, func(r adminapi.SampleRecord) bool { return r.ID() == "aurora-captions" })]
		line := storetest.Must(json.Marshal(r.Events[i]))(t)
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
	a := storetest.Must(adminapi.SampleAt(now))(t)
	b := storetest.Must(adminapi.SampleAt(now))(t)
	require.Equal(t, a, b)
	published := bytes.Count(a.Listings, []byte(`"visibility":"published"`))
	require.Less(t, published, bytes.Count(a.Listings, []byte("\n")), "candidates are private")
	require.Greater(t, published, 50)
}
