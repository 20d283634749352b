package review

import (
	"crypto/sha256"
	"encoding/binary"
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

	Findings api.ListingFindings // order the queue
	After    Position            // of the previous page's last record
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

// openingOf is the inverse of the share of unchanged reviews that are accepted only after their
// author opened a source.
const openingOf = 10

// NeedsOpening reports whether an unchanged review of a listing by an operator, on the sheet with
// the newest event eventID, is chosen for that check. The same arguments give the same result, so
// loading the sheet again does not draw again. Only the catalog knows secret.
func NeedsOpening(secret, id, operator, eventID string) bool {
	sum := sha256.Sum256([]byte(strings.Join([]string{secret, id, operator, eventID}, "\x00")))
	return binary.BigEndian.Uint64(sum[:8])%openingOf == 0
}
