package review

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/catalog/internal/listing"
)

// QueueFilter selects a page of the review queue. A field with its zero value matches every record.
type QueueFilter struct {
	listing.Filter
	Operator string // whose drafts are shown; required

	// only the records of today: those that are due, and the levelled share of those that soon will
	// be
	Today     bool
	Until     time.Time // only the records that are due by then
	Why       string
	Available bool // no other operator holds the lease
	Skipped   bool // only skipped records; otherwise only others

	Readings api.ReadingMarks // order the queue
	After    Position         // of the previous page's last record
	Limit    int
}

// Rank orders the queue before the due time, by the findings for the quotes of a record.
type Rank int

const (
	QuoteMissing  Rank = iota // at least one is missing
	QuotesOther               // anything else
	QuotesPresent             // all are present
)

// Quotes returns the rank as in api.QueueRecord.
func (r Rank) Quotes() string {
	return [...]string{string(api.QuoteMissing), "", string(api.QuotePresent)}[r]
}

// Position is the position of a record in the queue.
type Position struct {
	Rank  Rank
	DueAt int64 // microseconds since 1970 UTC
	ID    string
}

// Cursor returns the position as text.
func (p Position) Cursor() string { return fmt.Sprintf("%d.%d.%s", p.Rank, p.DueAt, p.ID) }

// ParseCursor parses the result of Cursor. ok is false for any other text.
func ParseCursor(text string) (p Position, ok bool) {
	first, rest, _ := strings.Cut(text, ".")
	at, id, _ := strings.Cut(rest, ".")
	rank, errRank := strconv.Atoi(first)
	dueAt, err := strconv.ParseInt(at, 10, 64)
	valid := errRank == nil && rank >= int(QuoteMissing) && rank <= int(QuotesPresent) && err == nil &&
		api.ValidSlug(id)
	return Position{Rank(rank), dueAt, id}, valid
}

// Whys lists the kinds of reasons.
var Whys = []string{api.DueNeverReviewed, api.DueStale, api.DueReview, api.DueClosed, api.DueLinkCheck, api.DueEdit}
