package curation_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/catalog/internal/listing"
	"opportunity.internal/services/catalog/internal/review"
)

// seed inserts 100,000 listings with their index and 1,000,000 changes. 90 % are published and fall
// due evenly over 17 days from three days ago.
func seed(b *testing.B, s stores) {
	b.Helper()
	for _, statement := range []string{
		`INSERT INTO listings (id, visibility, document, published_at, sequence, created_at, updated_at)
			SELECT 'r-' || n, CASE WHEN n % 10 = 0 THEN 'private' ELSE 'published' END, '{"id":"r-' || n || '"}', 1, n, 1, 1 FROM generate_series(1, 100000) n`,
		`INSERT INTO listing_index SELECT 'r-' || n, CASE WHEN n % 10 = 0 THEN 'private' ELSE 'published' END, 'online', 'Company ' || n, 'company' || n,
			'site-' || n || '.example', 'r-' || n || ' company ' || n, ',CA,', 2, 'open', 'reachable',
			CASE WHEN n % 97 = 0 THEN 'needs-review' ELSE 'verified' END, ` + dueAt + `, CASE WHEN n % 97 = 0 THEN ',link-check,' ELSE ',stale,' END,
			'[{"why":"stale","at":"2026-11-20T00:00:00Z"}]', ` + dueAt + ` - 14 * 86400000000, 0, 0 FROM generate_series(1, 100000) n`,
		`INSERT INTO leases SELECT 'r-' || n * 50 + 1, 'ben', 1, 9000000000000000 FROM generate_series(1, 500) n`,
		`INSERT INTO drafts SELECT 'r-' || n * 20 + 1, 'ann', '{}', 1 FROM generate_series(1, 500) n`,
		`INSERT INTO skips SELECT 'r-' || n * 30 + 1, 'ann', 'down', 1, 9000000000000000 FROM generate_series(1, 500) n`,
		`INSERT INTO listing_changes (listing_id, at, actor, what, fields, material, reason, differences, sequence)
			SELECT 'r-' || n % 100000, 1790000000000000 + n, CASE WHEN n % 5000 = 0 THEN 'ann' ELSE 'importer' END, 'updated',
				'summary', false, '', '', n
			FROM generate_series(1, 1000000) n`,
		`VACUUM ANALYZE`,
	} {
		require.NoError(b, s.db.Exec(statement).Error)
	}
}

// dueAt spreads row n over 17 days from 2026-11-17.
const dueAt = `1795003200000000::bigint - 3 * 86400000000::bigint + n::bigint * 7919 % 100000 * 14688000`

func BenchmarkQueue(b *testing.B) {
	s := open(b, schema.Postgres(b))
	seed(b, s)
	run := func(name string, read func() error) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				require.NoError(b, read())
			}
		})
	}
	for name, f := range map[string]review.QueueFilter{
		"today":  {Today: true},
		"next":   {Today: true, Available: true, Limit: 1},
		"all":    {},
		"text":   {Filter: listing.Filter{Text: "company 4711"}},
		"status": {Filter: listing.Filter{Status: "needs-review"}},
		"why":    {Why: review.Whys[3]},
		"held":   {Filter: listing.Filter{Holder: "ben"}},
		"last page": {After: review.Position{Rank: review.QuotesOther, DueAt: at.Add(13 * 24 * time.Hour).UnixMicro(),
			ID: "r-1"}},
	} {
		f.Operator, f.Limit = "ann", max(f.Limit, 100*(1-f.Limit))
		run(name, func() error { _, err := s.Queue(b.Context(), f); return err })
	}
	for name, f := range map[string]listing.Filter{"all": {}, "text": {Text: "company 4711"},
		"host": {Host: "site-99.example"}, "held": {Holder: "ben"}} {
		run("listings "+name, func() error { _, err := s.List(b.Context(), f, "", 100); return err })
	}
	for name, f := range map[string]listing.ActFilter{"actor": {Actor: "ann"}, "since": {Since: at},
		"unknown actor": {Actor: "eve"}} {
		f.Limit = 100
		run("changes "+name, func() error { _, err := s.listings.Acts(b.Context(), f); return err })
	}
	run("due", func() error { _, err := s.Due(b.Context(), at); return err })
	run("freshness", func() error { _, err := s.Freshness(b.Context()); return err })
	run("candidates", func() error { _, err := s.Candidates(b.Context(), listing.Filter{}, "", 100); return err })
}
