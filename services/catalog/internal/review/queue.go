package review

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
)

// QueueFilter selects a page of the review queue. A field with its zero value matches every record.
type QueueFilter struct {
	Operator string // whose drafts are shown; required

	Today     bool      // only the records of today: those that are due, and the levelled share of those that soon will be
	Until     time.Time // only the records that are due by then
	Why       string
	Status    api.VerificationStatus
	Category  api.Category
	Host      string
	Text      string // part of the id or of the company's name, case-insensitive
	Holder    string // of the lease
	Available bool   // no other operator holds the lease
	Skipped   bool   // only skipped records; otherwise only others

	After Position // of the previous page's last record
	Limit int
}

// Position is the position of a record in the queue.
type Position struct {
	DueAt int64 // microseconds since 1970 UTC
	ID    string
}

// Cursor returns the position as text.
func (p Position) Cursor() string { return fmt.Sprintf("%d.%s", p.DueAt, p.ID) }

// ParseCursor parses the result of Cursor. ok is false for any other text.
func ParseCursor(text string) (p Position, ok bool) {
	at, id, _ := strings.Cut(text, ".")
	dueAt, err := strconv.ParseInt(at, 10, 64)
	return Position{dueAt, id}, err == nil && api.ValidSlug(id)
}

// Whys lists the kinds of reasons.
var Whys = []string{api.DueNeverReviewed, api.DueStale, api.DueReview, api.DueClosed, api.DueLinkCheck, api.DueEdit}
