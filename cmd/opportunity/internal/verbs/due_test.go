package verbs_test

import (
	"encoding/csv"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const dueResponse = `{"generatedAt":"2026-11-20T10:00:00Z","until":"2026-11-27T10:00:00Z","records":[
{"id":"a","company":"=cmd|' /C calc'!A0","category":"online","status":"needs-review","dueAt":"2026-11-18T09:30:00Z","lastCheckedAt":"2026-11-10T09:00:00Z","reasons":[
 {"why":"edit","at":"2026-11-18T09:30:00Z","fields":["facts","startingCost"],"actor":"ann"},
 {"why":"link-check","at":"2026-11-19T09:00:00Z","outcome":"closed","eventId":"e","note":"answered\n404"}]},
{"id":"b","company":"B, \"Inc\"","category":"sell","status":"unverified","dueAt":"2026-11-19T10:00:00Z","lastCheckedAt":null,"reasons":[{"why":"never-reviewed","at":"2026-11-19T10:00:00Z"}]},
{"id":"c","company":"C","category":"host","status":"verified","dueAt":"2026-11-24T09:00:00Z","lastCheckedAt":"2026-11-10T09:00:00Z","reasons":[{"why":"stale","at":"2026-11-24T09:00:00Z"}]},
{"id":"d","company":"D","category":"host","status":"unverified","lastCheckedAt":null,"reasons":[{"why":"never-reviewed"}]}]}`

func TestReviewsDue(t *testing.T) {
	c, sent := admin(t, http.StatusOK, dueResponse)
	out, _, err := verb(t, c.URL, "", "reviews", "due", "--within", "7d")
	require.NoError(t, err)
	require.Equal(t, "GET /operator/v1/reviews/due?within=168h0m0s ann ", sent.String())
	lines := strings.Split(out, "\n")
	require.Len(t, lines, 7)
	require.Contains(t, lines[1],
		"changed 2026-11-18 09:30: facts, startingCost by ann; link check of 2026-11-19 09:00: closed (answered 404)")
	require.Contains(t, lines[2], "never reviewed, published 2026-11-19 10:00")
	require.Contains(t, lines[3], "stale after 2026-11-24 09:00")
	require.Regexp(t, `^- +d +host +unverified +never reviewed$`, lines[4])
	require.Equal(t, "4 due", lines[5])

	out, _, err = verb(t, c.URL, "", "reviews", "due", "--output", "csv")
	require.NoError(t, err)
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 5)
	require.Equal(t, []string{"", "d", "D", "host", "unverified", "", "never reviewed"}, rows[4])
	require.Equal(t, "'=cmd|' /C calc'!A0", rows[1][2], "no formula")
	require.Equal(t, `B, "Inc"`, rows[2][2])
	require.Equal(t, []string{"2026-11-24T09:00:00Z", "c", "C", "host", "verified", "2026-11-10T09:00:00Z",
		"stale after 2026-11-24 09:00"}, rows[3])

	out, _, err = verb(t, c.URL, "", "reviews", "due", "--output", "json")
	require.NoError(t, err)
	require.JSONEq(t, dueResponse, out)
	_, _, err = verb(t, c.URL, "", "reviews", "due", "--output", "xml")
	require.ErrorContains(t, err, "table, text, csv or json")
}
