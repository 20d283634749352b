package linkcheck

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/history/internal/pagetext"
	"opportunity.internal/services/history/internal/store"
)

func reading(address string, at time.Time, res result) store.Reading {
	r := store.Reading{URL: address, ReadAt: at, Outcome: res.outcome}
	if res.page != nil {
		r.Text = &res.page.Text
	} else {
		r.Note = sanitizeNote(strings.TrimSpace(res.note + " " + res.unread))
	}
	return r
}

// PagesRead counts the pages that a run read, and the findings for the quotes that cite them.
type PagesRead struct {
	Text, Gone, Unknown int
	Quotes              map[api.Finding]int
}

func (p *PagesRead) add(r store.Reading) {
	switch {
	case r.Text != nil:
		p.Text++
	case r.Outcome == api.OutcomeClosed:
		p.Gone++
	default:
		p.Unknown++
	}
}

func (p PagesRead) total() int { return p.Text + p.Gone + p.Unknown }

// String returns the counts as the end of a line, empty if no page was read.
func (p PagesRead) String() string {
	n := p.total()
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; read %s: %d as text, %d gone, %d unknown; "+
		"quotes: %d present, %d moved, %d missing, %d unknown", plural(n, "page"), p.Text, p.Gone, p.Unknown,
		p.Quotes[api.QuotePresent], p.Quotes[api.QuoteMoved], p.Quotes[api.QuoteMissing], p.Quotes[api.QuoteUnknown])
}

// finishPages looks for the quotes on the pages that were read since started, and deletes old
// texts.
func (r *run) finishPages(started time.Time) {
	if r.hard.Err() != nil || r.report.Read.total() == 0 {
		return
	}
	err := r.persist(func() (err error) {
		r.report.Read.Quotes, err = r.store.FindQuotes(r.hard, started.UTC().Truncate(time.Microsecond))
		return err
	})
	if err == nil {
		err = r.persist(func() error { return r.store.PrunePages(r.hard, r.now().AddDate(0, 0, -r.cfg.TextDays)) })
	}
	if err != nil {
		r.fail(err)
	}
}

// readPage returns the text of a page, or a sentence that says why it has none.
func readPage(resp *http.Response) (*pagetext.Page, string) {
	kind := resp.Header.Get("Content-Type")
	var body []byte
	if mayHaveText(kind) {
		var err error
		if body, err = readBody(resp); err != nil {
			return nil, "The page was not read: its content is incomplete or encoded in an unknown way."
		}
	}
	page, err := pagetext.Read(kind, body)
	if unreadable := new(pagetext.Unreadable); errors.As(err, &unreadable) {
		return nil, "The page was not read: " + unreadable.Reason + "."
	}
	return &page, ""
}

func mayHaveText(contentType string) bool {
	kind := strings.ToLower(contentType)
	return kind == "" || strings.HasPrefix(kind, "text/") || strings.Contains(kind, "html")
}

var errEncoding = errors.New("unknown content encoding")

// readBody returns the decoded body up to one byte more than pagetext.MaxBody. The limit also holds
// for the bytes received: compressed data can be endless and decode to nothing.
func readBody(resp *http.Response) ([]byte, error) {
	const limit = pagetext.MaxBody + 1
	body := io.LimitReader(resp.Body, limit)
	switch strings.ToLower(resp.Header.Get("Content-Encoding")) {
	case "", "identity":
	case "gzip", "x-gzip":
		decoded, err := gzip.NewReader(body)
		if err != nil {
			return nil, err
		}
		body = io.LimitReader(decoded, limit)
	default:
		return nil, errEncoding
	}
	return io.ReadAll(body)
}

// judgeText returns the result of a link, whose page needs review if it says that it is closed or
// for sale.
func (res result) judgeText() result {
	if res.page == nil {
		return res
	}
	if claim := pagetext.Closed(*res.page); claim != nil {
		cause := api.Cause{Text: claim.Sentence, Status: claim.Status}
		if res.cause != nil { // it also leads elsewhere
			cause = api.Cause{Text: res.cause.Text + " " + claim.Sentence}
		}
		res.outcome, res.cause = api.OutcomeNeedsReview, &cause
		res.note = fmt.Sprintf("%s The page says %q.", res.note, claim.Sentence)
	}
	return res
}
