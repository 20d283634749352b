package api

import "time"

// ChangeKind is the kind of a change of a record.
type ChangeKind string

const (
	ChangePublished ChangeKind = "published" // it became public, for the first time or again
	ChangeUpdated   ChangeKind = "updated"
	ChangeWithdrawn ChangeKind = "withdrawn"
)

// ChangesKept is the time for which changes can be read. A cursor before an older change has
// expired.
const ChangesKept = 90 * 24 * time.Hour

// RecordChange is the latest change of a record that is or was public.
type RecordChange struct {
	ID     string     `json:"id"` // of the record
	Change ChangeKind `json:"change"`
	At     time.Time  `json:"at"`
	Cursor string     `json:"cursor"` // position behind this change
}

// CursorPagination describes the position of one page of changes.
type CursorPagination struct {
	Limit   int     `json:"limit"` // limit in effect: the requested one, at most the tier's page size
	HasMore bool    `json:"hasMore"`
	Next    *string `json:"next"`   // absolute URL of the next page, null on the last
	Cursor  string  `json:"cursor"` // position behind the page
}

// ChangeList is the body of a response with changes.
type ChangeList struct {
	Data       []RecordChange   `json:"data"`
	Pagination CursorPagination `json:"pagination"`
	Meta       Meta             `json:"meta"`
}

// SetBackCondition is the name of the readiness condition that a service lacks while its database
// is set back, see package setback.
const SetBackCondition = "set back"

// MarkPath is the path of the newest mark of a service's database. Each parameter "seen" of the
// query is a mark that the caller remembers. The response is the newest mark, or 503 while the
// database is set back.
const MarkPath = "/internal/v1/mark"
