package snapshot

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/catalog/internal/listingtest"
)

var update = flag.Bool("update", false, "write the cases of the SDKs")

// sdkCases is the file of cases for the SDKs' matches. Each record is stored as it was at now.
const sdkCases = "../../../../sdk/conformance/matches/cases.json"

type sdkCase struct {
	Record int            `json:"record"` // index
	Filter map[string]any `json:"filter"` // in camel case
	Now    time.Time      `json:"now"`
	Want   bool           `json:"want"`
}

// TestCasesOfSDKsAreThoseOfTheOracle compares the cases with what the oracle says. make generate
// writes them.
func TestCasesOfSDKsAreThoseOfTheOracle(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	records := listingtest.Records(5, 40, now)
	choices := map[string][]string{
		"country": {"ca", "US", "FR"}, "province": {"ON", "ca-qc", "CA-NU"}, "verified": {"true", "false"},
		"category": {"online", "host"},
		"checked_after": {
			"2026-11-10", "20261106T10Z", "2026-11-06T10:00:00.123456Z", "2026-11-06T10:00:00,123457Z",
			"2026-11-06T15:30:00.123456+0530",
			"2026-11-06T09:59.5Z", "2026-11-06T10.0001Z", "1999-12-31T24:00:00-01",
		},
	}
	for _, b := range api.BoolFacts {
		choices[b.Param] = []string{"true", "false"}
	}
	for name, values := range searches {
		choices[name] = values
	}
	names := append(slices.Sorted(maps.Keys(choices)), "q", "q", "q", "province", "province", "province", "verified",
		"verified")
	var cases []sdkCase
	var public []api.Opportunity
	wanted := map[bool]int{}
	for i, r := range records {
		public = append(public, r.Public(now))
		times := []time.Time{now, now.AddDate(0, 0, 20)}
		if until := public[i].Verification.FreshUntil; until != nil {
			times = append(times, until.Truncate(time.Millisecond),
				until.Truncate(time.Millisecond).Add(time.Millisecond))
		}
		for _, p := range api.Provinces {
			v := url.Values{"country": {"CA"}, "province": {p}}
			if i > 10 && !matches(public[i], url.Values{"country": {"CA"}}) {
				break // few of these are enough
			}
			cases = append(cases, sdkCase{i, camelFilter(v), now.Truncate(time.Millisecond), matches(public[i], v)})
		}
		// 0.36 s after the hour, most reviews are 0.12 s after it
		if checked := public[i].Verification.LastCheckedAt; checked != nil && i < 20 {
			v := url.Values{"checked_after": {checked.Format("2006-01-02T15.0001Z")}}
			cases = append(cases, sdkCase{i, camelFilter(v), now.Truncate(time.Millisecond), false})
		}
		for range 80 {
			v := url.Values{}
			for range 1 + random.IntN(3) {
				name := names[random.IntN(len(names))]
				v.Set(name, choices[name][random.IntN(len(choices[name]))])
			}
			if v.Has("province") {
				v.Set("country", "CA")
			}
			at := times[random.IntN(len(times))].Truncate(time.Millisecond) // that JavaScript has
			exact := maps.Clone(v)
			if instant, err := api.ParseInstant(v.Get("checked_after")); err == nil {
				exact.Set("checked_after", instant.Format(time.RFC3339Nano))
			}
			want := matches(r.Public(at), exact)
			if wanted[want]++; wanted[want] <= 250 {
				cases = append(cases, sdkCase{i, camelFilter(v), at, want})
			}
		}
	}
	require.Greater(t, min(wanted[true], wanted[false]), 200)
	var text strings.Builder
	fmt.Fprintf(&text, "{\n  \"records\": [\n%s\n  ],\n  \"cases\": [\n%s\n  ]\n}\n", jsonLines(t, public),
		jsonLines(t, cases))
	if *update {
		require.NoError(t, os.WriteFile(sdkCases, []byte(text.String()), 0o600))
	}
	have, err := os.ReadFile(sdkCases)
	require.NoError(t, err)
	require.Equal(t, text.String(), string(have), "run make generate")
}

func jsonLines[T any](t *testing.T, all []T) string {
	t.Helper()
	lines := make([]string, len(all))
	for i, v := range all {
		line, err := json.Marshal(v)
		require.NoError(t, err)
		lines[i] = "    " + string(line)
	}
	return strings.Join(lines, ",\n")
}

var afterUnderscore = regexp.MustCompile("_.")

func camelFilter(v url.Values) map[string]any {
	out := map[string]any{}
	for name := range v {
		camel := afterUnderscore.ReplaceAllStringFunc(name, func(s string) string { return strings.ToUpper(s[1:]) })
		if out[camel] = v.Get(name); v.Get(name) == "true" || v.Get(name) == "false" {
			out[camel] = v.Get(name) == "true"
		}
	}
	return out
}
