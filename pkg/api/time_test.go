package api_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
)

var accepted = map[string]string{
	"2026-11-01":                     "2026-11-01T00:00:00Z",
	"20261101":                       "2026-11-01T00:00:00Z",
	"2026-11-01T12:30:15Z":           "2026-11-01T12:30:15Z",
	"20261101T123015Z":               "2026-11-01T12:30:15Z",
	"2026-11-01T00:00Z":              "2026-11-01T00:00:00Z",
	"20261101T0930Z":                 "2026-11-01T09:30:00Z",
	"2026-11-01T09Z":                 "2026-11-01T09:00:00Z",
	"20261101T09Z":                   "2026-11-01T09:00:00Z",
	"2026-11-01T00:30:00+05:00":      "2026-10-31T19:30:00Z",
	"2026-11-01T00:30:00+0500":       "2026-10-31T19:30:00Z",
	"2026-11-01T00:30:00+05":         "2026-10-31T19:30:00Z",
	"20261101T003000-0330":           "2026-11-01T04:00:00Z",
	"20261101T003000-03:30":          "2026-11-01T04:00:00Z",
	"2026-11-01T09:00-05":            "2026-11-01T14:00:00Z",
	"2026-11-01T00:00:00-00:30":      "2026-11-01T00:30:00Z",
	"2026-11-01T09:00:00.5Z":         "2026-11-01T09:00:00.5Z",
	"2026-11-01T09:00:00,25Z":        "2026-11-01T09:00:00.25Z",
	"20261101T090000.123456789999Z":  "2026-11-01T09:00:00.123456789Z",
	"2026-11-01T09:30,5Z":            "2026-11-01T09:30:30Z",
	"2026-11-01T09.25Z":              "2026-11-01T09:15:00Z",
	"2026-11-01T24:00:00Z":           "2026-11-02T00:00:00Z",
	"2028-02-29":                     "2028-02-29T00:00:00Z",
	"0000-01-01":                     "0000-01-01T00:00:00Z",
	"9999-12-31T23:59:59.999999999Z": "9999-12-31T23:59:59.999999999Z",
}

var rejected = []string{
	"", "2026", "2026-11", "202611", "2026-W45", "2026-W45-1", "2026W451", "2026-305", "2026305", "+12026-11-01",
	"26-11-01",
	"2026-02-29", "2026-13-01", "2026-00-01", "2026-11-00", "2026-11-31", "2026-1-1", "2026-1101", "202611-01",
	"2026-11-01T09:00:00", "20261101T090000", "2026-11-01T", "2026-11-01T9:00:00Z", "2026-11-01 09:00:00Z",
	"2026-11-01t09:00:00z",
	"2026-11-01T25:00:00Z", "2026-11-01T24:00:01Z", "2026-11-01T24:00:00.1Z", "2026-11-01T09:60:00Z",
	"2026-11-01T23:59:60Z",
	"2026-11-01T0900Z", "20261101T09:00Z", "2026-11-01T09:0000Z", "2026-11-01T09:00:00.Z", "2026-11-01T09:00:00+24:00",
	"2026-11-01T09:00:00+05:60", "2026-11-01T09:00:00+5", "2026-11-01T09:00:00 05:00", "2026-11-01Z",
	"2026-11-01+05:00",
	"2026-11-01T09:00:00Z and more", "2026-11-01\n", "２０２６-11-01",
}

// TestInstantsOfISO8601 also compares the pattern that validators of requests use with the parser.
// A pattern cannot know the days of a month.
func TestInstantsOfISO8601(t *testing.T) {
	schema := description(t).Components.Parameters["checkedAfter"].Value.Schema.Value
	pattern := regexp.MustCompile(schema.Pattern)
	for text, want := range accepted {
		got, err := api.ParseInstant(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got.Format(time.RFC3339Nano), text)
		require.True(t, pattern.MatchString(text), "%q", text)
	}
	for _, text := range rejected {
		_, err := api.ParseInstant(text)
		require.Error(t, err, "%q", text)
		noDay := text == "2026-02-29" || text == "2026-11-31"
		require.Equal(t, noDay, pattern.MatchString(text), "%q", text)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringMatching(schema.Pattern),
			rapid.StringMatching(`[0-9]{4}-?[01][0-9]-?[0-3][0-9]T[0-9:.,]{2,8}([Z+-][0-9:]{0,5})?`)).Draw(t, "text")
		_, err := api.ParseInstant(text)
		if noDay := regexp.MustCompile(`^\d{4}-?(02-?(29|30)|(02|04|06|09|11)-?31)`).MatchString(text); !noDay {
			require.Equal(t, err == nil, pattern.MatchString(text), "%q", text)
		}
	})
}

// FuzzParseInstant checks that the result does not depend on the form: every timestamp of RFC 3339
// means the same as for the time package, and the basic form means the same as the extended one.
func FuzzParseInstant(f *testing.F) {
	f.Add("2026-11-01T09:00:00.5+05:30")
	f.Add("20261101T09,5-0330")
	f.Add("2026-11-01")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := api.ParseInstant(text)
		if want, failed := time.Parse(time.RFC3339, text); failed == nil && strings.IndexByte(text, ',') < 0 &&
			len(text) > 18 && text[13] == ':' {
			require.NoError(t, err, text)
			require.True(t, want.Equal(got), "%s: got %s, want %s", text, got, want)
		}
		if err != nil {
			return
		}
		require.Equal(t, time.UTC, got.Location())
		again, err := api.ParseInstant(got.Format("20060102T150405.999999999Z"))
		if year := got.Year(); year >= 0 && year <= 9999 { // an offset can leave the years that have four digits
			require.NoError(t, err)
			require.True(t, got.Equal(again), text)
		}
	})
}

func TestCheckDateIsADateOrAnRFC3339Timestamp(t *testing.T) {
	for text, want := range map[string]string{
		"2026-11-20":                    "2026-11-20T00:00:00Z",
		"2026-11-20T09:00:00Z":          "2026-11-20T09:00:00Z",
		"2026-11-20T09:00:00.5-05:00":   "2026-11-20T14:00:00.5Z",
		"2026-11-20T00:30:00+23:59":     "2026-11-19T00:31:00Z",
		"2026-11-20T09:00:00+24:00":     "",
		"2026-11-20T09:00:00+05:60":     "",
		"2026-11-20T9:00:00Z":           "",
		"2026-11-20T09:00:00,5Z":        "",
		"2026-11-20T09:00:00":           "",
		"2026-11-20 09:00:00Z":          "",
		"2026-02-30":                    "",
		"20261120":                      "",
		"":                              "",
		"2026-11-20T09:00:00Z and more": "",
	} {
		got, err := api.CheckDate(text).Time()
		if want == "" {
			require.Error(t, err, text)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, want, got.Format(time.RFC3339Nano))
	}
}

func TestTimestampInJSONIsStrict(t *testing.T) {
	var got struct{ Until api.Timestamp }
	require.NoError(t, json.Unmarshal([]byte(`{"Until":"2026-11-20T09:00:00+05:00"}`), &got))
	require.Equal(t, time.Date(2026, 11, 20, 4, 0, 0, 0, time.UTC), got.Until.Time)
	for _, text := range []string{`"2026-11-20T09:00:00+24:00"`, `"2026-11-20T9:00:00Z"`, `"2026-11-20"`, `5`} {
		require.Error(t, json.Unmarshal([]byte(`{"Until":`+text+`}`), &got), text)
	}
}

func TestParseDuration(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"30d": 30 * day, "12h": 12 * time.Hour, "90m": 90 * time.Minute, "1d12h": 36 * time.Hour, "2w": 14 * day,
		"1w2d3h4m5s": 9*day + 3*time.Hour + 4*time.Minute + 5*time.Second,
		"0":          0, "0s": 0, "1.5d": 36 * time.Hour, "500ms": 500 * time.Millisecond, "3µs": 3 * time.Microsecond,
		"720h0m0s": 720 * time.Hour,
	} {
		got, err := api.ParseDuration(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "30", "30x", "d", "-1d", "+1d", "1d-2h", "1 d", "d1", "1..5d", "1dd", "200000d",
		"106751d24h", "1h 2m", "٣d", "NaNd", "1e3d"} {
		_, err := api.ParseDuration(text)
		require.EqualError(t, err, "use a duration such as 30d, 12h or 90m", text)
	}
}

// ParseDuration accepts every duration formatted by Go.
func TestParseDurationReadsGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := time.Duration(rapid.Int64Min(0).Draw(t, "d"))
		got, err := api.ParseDuration(want.String())
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}
