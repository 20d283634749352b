package store

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/history/internal/pagetext"
)

type pageRow struct {
	URL     string `gorm:"column:url;primaryKey"`
	ReadAt  int64
	Outcome api.Outcome
	Note    string // why the last attempt read no text
	SHA256  string `gorm:"column:sha256"` // of the latest text, empty if there is none
	TextAt  int64
}

func (pageRow) TableName() string { return "pages" }

type textRow struct {
	SHA256  string `gorm:"column:sha256;primaryKey"`
	Content []byte
	ReadAt  int64
}

func (textRow) TableName() string { return "page_texts" }

// Reading is the result of an attempt to read a page.
type Reading struct {
	URL     string
	ReadAt  time.Time
	Outcome api.Outcome // as of an application link
	Text    *string     // nil if no text was read
	Note    string      // why no text was read, otherwise empty
}

// SavePage stores the result of reading a page.
func (s *Store) SavePage(ctx context.Context, r Reading) error {
	row := pageRow{URL: r.URL, ReadAt: database.Micros(r.ReadAt), Outcome: r.Outcome, Note: r.Note}
	columns := []string{"read_at", "outcome", "note"}
	if r.Text != nil {
		sum := sha256.Sum256([]byte(*r.Text))
		row.SHA256, row.TextAt = hex.EncodeToString(sum[:]), row.ReadAt
		columns = append(columns, "sha256", "text_at")
	}
	save := func(tx *gorm.DB, key string, columns []string, row any) error {
		return tx.Clauses(clause.OnConflict{Columns: []clause.Column{{Name: key}},
			DoUpdates: clause.AssignmentColumns(columns)}).Create(row).Error
	}
	return database.Outage(s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if r.Text != nil {
			text := textRow{row.SHA256, compress(*r.Text), row.ReadAt}
			if err := save(tx, "sha256", []string{"read_at"}, &text); err != nil {
				return err
			}
		}
		return save(tx, "url", columns, &row)
	}))
}

func compress(text string) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = io.WriteString(z, text) // a buffer never fails
	_ = z.Close()
	return out.Bytes()
}

func decompress(content []byte) (string, error) {
	z, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(z)
	return string(text), err
}

// textsOf returns the stored texts with the hashes. A deleted one is missing.
func textsOf(tx *gorm.DB, hashes []string) (map[string]string, error) {
	var rows []textRow
	if err := tx.Where("sha256 IN ?", hashes).Find(&rows).Error; err != nil {
		return nil, err
	}
	texts := make(map[string]string, len(rows))
	for _, row := range rows {
		text, err := decompress(row.Content)
		if err != nil {
			return nil, fmt.Errorf("text %s of a page: %w", row.SHA256, err)
		}
		texts[row.SHA256] = text
	}
	return texts, nil
}

// pagesOf returns the pages that were read, and their latest texts, by URL.
func pagesOf(tx *gorm.DB, urls []string) (pages map[string]pageRow, texts map[string]string, err error) {
	var rows []pageRow
	if err := tx.Where("url IN ?", urls).Find(&rows).Error; err != nil {
		return nil, nil, err
	}
	var hashes []string
	for _, row := range rows {
		hashes = append(hashes, row.SHA256)
	}
	byHash, err := textsOf(tx, hashes)
	pages, texts = map[string]pageRow{}, map[string]string{}
	for _, row := range rows {
		pages[row.URL] = row
		if text, ok := byHash[row.SHA256]; ok {
			texts[row.URL] = text
		}
	}
	return pages, texts, err
}

// maxCaptureAge is the age up to which a text that a machine read counts as what a curator saw.
const maxCaptureAge = 7 * 24 * time.Hour

// addCaptures adds the captures of the sources of reviews to their evidence, in the order of the
// sources. A review that is recorded much later than it was made has none.
func addCaptures(tx *gorm.DB, records []proposed) error {
	sources := map[*proposed][]string{}
	var urls []string
	for i := range records {
		p := &records[i]
		if p.CheckType != api.FactualReview || p.CheckedAt < p.earliestCapture() {
			continue
		}
		var own []string
		if err := json.Unmarshal([]byte(p.SourceURLs), &own); err != nil {
			return err
		}
		sources[p], urls = own, append(urls, own...)
	}
	slices.Sort(urls)
	read := make(map[string]pageRow)
	for some := range slices.Chunk(slices.Compact(urls), batchSize) {
		var rows []pageRow
		if err := tx.Where("url IN ? AND sha256 <> ''", some).Find(&rows).Error; err != nil {
			return err
		}
		for _, row := range rows {
			read[row.URL] = row
		}
	}
	for p, own := range sources {
		p.evidence.Complete()
		p.evidence.Captures = []api.Capture{}
		for _, url := range own {
			if row, found := read[url]; found && row.TextAt >= p.earliestCapture() {
				capture := api.Capture{SourceURL: url, ReadAt: database.FromMicros(row.TextAt), SHA256: row.SHA256}
				p.evidence.Captures = append(p.evidence.Captures, capture)
			}
		}
	}
	return nil
}

func (p *proposed) earliestCapture() int64 { return p.RecordedAt - maxCaptureAge.Microseconds() }

// Readings returns the findings for the quotes on the latest texts of their pages. A quote whose
// page was never read is left out.
func (s *Store) Readings(ctx context.Context, quotes []api.Quote) ([]api.QuoteReading, error) {
	readings, err := readingsOf(s.db.WithContext(ctx), quotes)
	return readings, database.Outage(err)
}

func readingsOf(tx *gorm.DB, quotes []api.Quote) ([]api.QuoteReading, error) {
	readings := []api.QuoteReading{}
	err := eachQuote(tx, quotes, func(r api.QuoteReading, page pageRow, text *string) {
		switch {
		case page.URL == "":
			return
		case page.Note == "" && text != nil:
			r.Finding, r.Moved = pagetext.Find(*text, r.Quote)
		case page.Outcome == api.OutcomeClosed:
			r.Finding = api.QuoteMissing
		}
		r.ReadAt = database.FromMicros(page.ReadAt)
		readings = append(readings, r)
	})
	return readings, err
}

// eachQuote calls use for each quote, with a finding to complete, its page, which has no URL if it
// was never read, and the latest text of the page, if there is one.
func eachQuote(tx *gorm.DB, quotes []api.Quote, use func(r api.QuoteReading, page pageRow, text *string)) error {
	if len(quotes) == 0 {
		return nil
	}
	var urls []string
	for _, q := range quotes {
		urls = append(urls, q.SourceURL)
	}
	pages, texts, err := pagesOf(tx, urls)
	if err != nil {
		return err
	}
	for _, q := range quotes {
		page := pages[q.SourceURL]
		var text *string
		if found, ok := texts[q.SourceURL]; ok {
			text = &found
		}
		use(api.QuoteReading{Quote: q, Finding: api.QuoteUnknown, Note: page.Note}, page, text)
	}
	return nil
}

// FindOnTexts returns the findings for the quotes on the stored texts of their pages, in the order
// of the quotes.
func (s *Store) FindOnTexts(ctx context.Context, quotes []api.Quote) ([]api.QuoteReading, error) {
	readings := []api.QuoteReading{}
	err := eachQuote(s.db.WithContext(ctx), quotes, func(r api.QuoteReading, page pageRow, text *string) {
		if text != nil {
			r.ReadAt = database.FromMicros(page.TextAt)
			r.Finding, r.Moved = pagetext.Find(*text, r.Quote)
		}
		readings = append(readings, r)
	})
	return readings, database.Outage(err)
}

// Suggestions returns, for each missing quote, the nearest sentence of its page, then sentences of
// the pages of a listing that may support the facts for which quotes has none. Missing quotes are
// not among quotes.
func (s *Store) Suggestions(ctx context.Context, slug string, quotes, missing []api.Quote) ([]api.Quote, error) {
	tx := s.db.WithContext(ctx)
	_, urls, err := citationOf(tx, slug)
	if err != nil {
		return nil, database.Outage(err)
	}
	all := slices.Clone(urls)
	for _, q := range missing {
		all = append(all, q.SourceURL)
	}
	_, texts, err := pagesOf(tx, all)
	if err != nil {
		return nil, database.Outage(err)
	}
	suggestions := []api.Quote{}
	add := func(found api.Quote) {
		same := func(q api.Quote) bool {
			return q.Fact == found.Fact && q.SourceURL == found.SourceURL && q.Exact == found.Exact
		}
		if !slices.ContainsFunc(quotes, same) && !slices.ContainsFunc(suggestions, same) {
			suggestions = append(suggestions, found)
		}
	}
	for _, q := range missing {
		if near, ok := pagetext.Nearest(texts[q.SourceURL], q); ok {
			add(near)
		}
	}
	for _, u := range urls {
		for _, found := range pagetext.Suggest(u, pagetext.Page{Text: texts[u]}) {
			if !slices.ContainsFunc(quotes, func(q api.Quote) bool { return q.Fact == found.Fact }) {
				add(found)
			}
		}
	}
	return suggestions, nil
}

// unique returns the values without repetitions, in their order.
func unique(values []string) (kept []string) {
	seen := map[string]bool{}
	for _, v := range values {
		if !seen[v] {
			seen[v] = true
			kept = append(kept, v)
		}
	}
	return kept
}

// PageTexts returns the pages of a listing with their latest texts and those of its latest verified
// review.
func (s *Store) PageTexts(ctx context.Context, slug string) (api.PageTexts, error) {
	tx := s.db.WithContext(ctx)
	cited, urls, err := citationOf(tx, slug)
	if err != nil {
		return api.PageTexts{}, database.Outage(err)
	}
	pages, texts, err := pagesOf(tx, urls)
	if err != nil {
		return api.PageTexts{}, database.Outage(err)
	}
	reviewed := map[string]api.Capture{}
	var hashes []string
	for _, c := range cited.captures {
		reviewed[c.SourceURL] = c
		hashes = append(hashes, c.SHA256)
	}
	then, err := textsOf(tx, hashes)
	all := api.PageTexts{Pages: make([]api.PageText, len(urls))}
	for i, u := range urls {
		p := api.PageText{URL: u, Note: pages[u].Note, Text: texts[u], ReviewedText: then[reviewed[u].SHA256]}
		if at := pages[u].ReadAt; at > 0 {
			p.ReadAt = database.FromMicros(at)
		}
		if p.ReviewedText != "" {
			p.ReviewedAt = reviewed[u].ReadAt
		}
		all.Pages[i] = p
	}
	return all, database.Outage(err)
}

// ListingFindings returns the listings whose latest quotes are all present, or some missing.
func (s *Store) ListingFindings(ctx context.Context) (api.ListingFindings, error) {
	findings := api.ListingFindings{Missing: []string{}, Present: []string{}}
	var rows []findingRow
	if err := s.db.WithContext(ctx).Order("slug").Find(&rows).Error; err != nil {
		return findings, database.Outage(err)
	}
	for _, row := range rows {
		if row.Finding == api.QuoteMissing {
			findings.Missing = append(findings.Missing, row.Slug)
		} else {
			findings.Present = append(findings.Present, row.Slug)
		}
	}
	return findings, nil
}

// PrunePages deletes texts, and pages, that were last read before then.
func (s *Store) PrunePages(ctx context.Context, before time.Time) error {
	us := database.Micros(before)
	return database.Outage(s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		return errors.Join(tx.Exec("DELETE FROM pages WHERE read_at < ?", us).Error,
			tx.Exec("DELETE FROM page_texts WHERE read_at < ?", us).Error)
	}))
}
