package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/history/internal/event"
)

// citation is the use that a listing has for pages.
type citation struct {
	slug      string
	published bool
	pages     []string      // of the listing
	sources   []string      // of its latest review, nil without one
	quotes    []api.Quote   // the latest ones
	captures  []api.Capture // of its latest verified review
}

// eachCitation calls use for the listing with a slug, or for every one if it is empty.
func eachCitation(tx *gorm.DB, slug string, use func(citation) error) error {
	rows, err := tx.Raw(`SELECT l.id, l.published, l.pages, coalesce(r.source_urls, 'null'), coalesce(q.evidence, '{}'),
			coalesce(v.evidence, '{}') FROM listings l
		LEFT JOIN summaries s ON s.slug = l.id
		LEFT JOIN verification_events r ON r.id = s.latest_review
		LEFT JOIN verification_events q ON q.id = s.latest_evidence
		LEFT JOIN verification_events v ON v.id = s.latest_verified WHERE ? IN ('', l.id)`, slug).Rows()
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var c citation
		var pages, sources, evidence, verified string
		if err := rows.Scan(&c.slug, &c.published, &pages, &sources, &evidence, &verified); err != nil {
			return err
		}
		quoted, err := event.PrivateOf(evidence)
		captured, err2 := event.PrivateOf(verified)
		if err := errors.Join(err, err2, json.Unmarshal([]byte(pages), &c.pages),
			json.Unmarshal([]byte(sources), &c.sources)); err != nil {
			return err
		}
		c.quotes, c.captures = cmp.Or(quoted, &api.Evidence{}).Quotes, cmp.Or(captured, &api.Evidence{}).Captures
		if err := use(c); err != nil {
			return err
		}
	}
	return rows.Err()
}

// citationOf returns the citation of a listing, and all its pages.
func citationOf(tx *gorm.DB, slug string) (c citation, urls []string, err error) {
	err = eachCitation(tx, slug, func(found citation) error { c = found; return nil })
	urls = append(slices.Clone(c.pages), c.sources...)
	for _, capture := range c.captures {
		urls = append(urls, capture.SourceURL)
	}
	return c, unique(urls), err
}

// PageToRead is a page that listings cite.
type PageToRead struct {
	URL    string
	ReadAt int64 // last attempt, in microseconds since 1970 UTC; 0 before the first
}

// PagesToRead returns the pages that are read daily, and those that are read until they respond and
// have not. Application links of published listings are not among them: Links has these.
func (s *Store) PagesToRead(ctx context.Context) (pages []PageToRead, err error) {
	tx := s.db.WithContext(ctx)
	var read []pageRow
	if err := tx.Select("url", "read_at", "outcome").Find(&read).Error; err != nil {
		return nil, database.Outage(err)
	}
	last := make(map[string]pageRow, len(read))
	for _, row := range read {
		last[row.URL] = row
	}
	var links []string
	if err := tx.Raw("SELECT application_url FROM listings WHERE published").Scan(&links).Error; err != nil {
		return nil, database.Outage(err)
	}
	taken := make(map[string]bool, len(links))
	for _, u := range links {
		taken[u] = true
	}
	err = eachCitation(tx, "", func(c citation) error {
		cited := c.pages
		if c.sources != nil {
			cited = c.sources
		}
		for _, q := range c.quotes {
			cited = append(cited, q.SourceURL)
		}
		for _, u := range cited {
			row, attempted := last[u]
			daily := c.published && c.sources != nil
			if taken[u] || attempted && row.Outcome != api.OutcomeUnreachable && !daily {
				continue
			}
			taken[u] = true
			pages = append(pages, PageToRead{u, row.ReadAt})
		}
		return nil
	})
	return pages, database.Outage(err)
}

type findingRow struct {
	Slug    string `gorm:"primaryKey"`
	Finding api.Finding
}

func (findingRow) TableName() string { return "listing_findings" }

// FindQuotes looks for the quotes of all listings that cite a page that was read since then, stores
// the finding of each listing, and counts those of the quotes.
func (s *Store) FindQuotes(ctx context.Context, since time.Time) (map[api.Finding]int, error) {
	tx := s.db.WithContext(ctx)
	var urls []string
	if err := tx.Raw("SELECT url FROM pages WHERE read_at >= ?", database.Micros(since)).Scan(&urls).Error; err != nil {
		return nil, database.Outage(err)
	}
	read := make(map[string]bool, len(urls))
	for _, u := range urls {
		read[u] = true
	}
	var cited []citation
	err := eachCitation(tx, "", func(c citation) error {
		if c.published && slices.ContainsFunc(c.quotes, func(q api.Quote) bool { return read[q.SourceURL] }) {
			cited = append(cited, c)
		}
		return nil
	})
	if err != nil {
		return nil, database.Outage(err)
	}
	found := map[api.Finding]int{}
	for _, c := range cited {
		readings, err := readingsOf(tx, c.quotes)
		if err == nil {
			err = saveFinding(tx, c, readings)
		}
		if err != nil {
			return nil, database.Outage(err)
		}
		for _, r := range readings {
			found[r.Finding]++
		}
	}
	return found, nil
}

// saveFinding stores the finding of a listing: missing if a quote is, present if all are and each
// known fact has one.
func saveFinding(tx *gorm.DB, c citation, readings []api.QuoteReading) error {
	has := func(f api.Finding) func(api.QuoteReading) bool {
		return func(r api.QuoteReading) bool { return r.Finding == f }
	}
	row := findingRow{Slug: c.slug, Finding: api.QuoteMissing}
	if !slices.ContainsFunc(readings, has(api.QuoteMissing)) {
		facts, err := factsOf(tx, c.slug)
		if err != nil {
			return err
		}
		notPresent := func(r api.QuoteReading) bool { return r.Finding != api.QuotePresent }
		if facts == nil || len(readings) < len(c.quotes) || slices.ContainsFunc(readings, notPresent) ||
			len(api.Unquoted(*facts, c.quotes)) > 0 {
			return tx.Delete(&row).Error
		}
		row.Finding = api.QuotePresent
	}
	return database.Insert(tx, []findingRow{row}, "slug")
}

// factsOf returns the facts in effect of a listing, nil if there are none.
func factsOf(tx *gorm.DB, slug string) (*api.Facts, error) {
	var row summaryRow
	if err := tx.Where("slug = ?", slug).Take(&row).Error; err != nil {
		return nil, err
	}
	var sum api.Summary
	err := json.Unmarshal([]byte(row.Summary), &sum)
	return sum.Facts, err
}
