package listing

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
)

// Filter selects listings for curators. A field with its zero value matches every listing.
type Filter struct {
	Visibility listingfile.Visibility
	Status     api.VerificationStatus
	Category   api.Category
	Country    string    // upper case; matches if residents are eligible, as for consumers
	Text       string    // part of the id or of the company's name, case-insensitive
	Host       string    // of the company's website, without www.
	DueBefore  time.Time // published, and due for a review before then
	Holder     string    // of the lease
}

// ActFilter selects what operators did to listings. A field with its zero value matches every act.
type ActFilter struct {
	Actor   string
	Listing string
	Action  string
	Since   time.Time // at or after
	Until   time.Time // before
	Before  int64     // with a lower id
	Limit   int
}

// ChangePage is a page of the changes of records.
type ChangePage struct {
	Changes []api.RecordChange
	HasMore bool
	End     Position // behind the page
	Newest  Position // behind the newest change that can be read
}

// Position is a position in the change sequence: behind Sequence, whose transaction has the ID. The
// zero value is before all changes. A database that was restored from an older backup lacks the id,
// even after it has used the sequence again.
type Position struct {
	Sequence int64
	ID       string
}

var encoding = base64.RawURLEncoding.Strict()

// Cursor returns the position as consumers see it. They must not rely on its form.
func (p Position) Cursor() string {
	return encoding.EncodeToString([]byte(strconv.FormatInt(p.Sequence, 10) + "." + p.ID))
}

// ParseCursor returns the position of a cursor, and false for any other text.
func ParseCursor(text string) (Position, bool) {
	decoded, err := encoding.DecodeString(text)
	sequence, id, _ := strings.Cut(string(decoded), ".")
	p := Position{ID: id}
	if err == nil {
		p.Sequence, err = strconv.ParseInt(sequence, 10, 64)
	}
	return p, err == nil && p.Cursor() == text && p.Sequence >= 0 && (p.Sequence == 0) == (id == "")
}
