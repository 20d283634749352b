package desk_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

func TestPagesShowWhatChangedSinceTheReview(t *testing.T) {
	s, b := reviewing(t, func(s *api.ReviewSheet) {
		s.Evidence.Quotes = []api.Quote{{Fact: "pay", SourceURL: rates, Exact: "$18 per hour"},
			{Fact: "pay", SourceURL: site, Exact: "$20 per hour"}}
	})
	at := time.Date(2026, 11, 24, 9, 0, 0, 0, time.UTC)
	long := strings.Repeat("The same.\n", 50)
	s.api.respond("GET /records/maple/pages", api.PageTexts{Pages: []api.PageText{
		{URL: rates, ReadAt: at, ReviewedAt: at, Text: long + "Members earn $18 per hour.\n<script>alert(1)</script>",
			ReviewedText: long + "Members earn $20 per hour."},
		{URL: site, ReadAt: at, ReviewedAt: at, Text: long, ReviewedText: long},
		{URL: "https://c.example", ReadAt: at, Note: "asks whether the reader is a robot"},
		{URL: "https://d.example"},
	}})
	page := b.get("/records/maple/pages").body
	require.Contains(t, page, "<del>Members earn $20 per hour.</del>")
	require.Contains(t, page, "<ins>Members earn <mark>$18 per hour</mark>.</ins>")
	require.Contains(t, page, "<ins>&lt;script&gt;alert(1)&lt;/script&gt;</ins>")
	require.Equal(t, 1, strings.Count(page, "The same."), "the line before a change, and a gap instead of the others")
	require.Contains(t, page, "Unchanged since")
	require.Contains(t, page, "asks whether the reader is a robot")
	require.Contains(t, page, "Waits for the link checker.")
}

func TestComparisonOfPagesIsBounded(t *testing.T) {
	s, b := reviewing(t)
	before, after := strings.Repeat("a line of before\n", 5000), strings.Repeat("another line\nof after\n", 5000)
	s.api.respond("GET /records/maple/pages",
		api.PageTexts{Pages: []api.PageText{{URL: rates, Text: after, ReviewedText: before}}})
	require.Less(t, len(b.get("/records/maple/pages").body), 100_000)
}
