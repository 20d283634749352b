package api

import (
	"fmt"
	"strconv"
	"strings"
)

// FeedMark identifies a change of a store that another service has seen in the store's feed. Only the store that made the change, and
// exact copies of it, have the mark: a store restored from an older backup lacks it even after it has used the sequence again.
type FeedMark struct {
	Sequence int64  `json:"sequence"`
	ID       string `json:"id"` // of the event, or of the transaction; empty if only the sequence is known
}

// String returns the mark as ParseFeedMark reads it.
func (m FeedMark) String() string { return strconv.FormatInt(m.Sequence, 10) + "." + m.ID }

// ParseFeedMark parses a mark.
func ParseFeedMark(text string) (FeedMark, error) {
	sequence, id, ok := strings.Cut(text, ".")
	n, err := strconv.ParseInt(sequence, 10, 64)
	if !ok || err != nil || n < 0 || len(id) > 64 {
		return FeedMark{}, fmt.Errorf("%q is not a mark, such as 7.0193c1d2-7f00-7000-8000-000000000000", text)
	}
	return FeedMark{n, id}, nil
}

// SignedCheckpoint is a checkpoint of the history. The zero value stands for none.
type SignedCheckpoint struct {
	Number int64  `json:"number"`
	Note   string `json:"note"` // the signed text
}

// SetBackCondition is the name of the readiness condition that a service lacks while its database is set back.
const SetBackCondition = "set back"

// SeenPath is the path at which catalog and history return what they have seen of each other's database, and authquota what it has seen of
// billing's.
const SeenPath = "/internal/v1/seen"

// SeenChangePath is the path at which history stores a FeedMark of authquota's database for the gateways. It returns the newest stored one.
const SeenChangePath = "/internal/v1/seen/authquota"

// SeenChangeHeader is the header of requests to authquota with the newest of its changes that a gateway has seen. Package peer removes it
// from requests of other callers.
const SeenChangeHeader = "Opportunity-Seen-Change"

// NewestPath is the path at which gateways report to catalog and history, as Seen, the newest of their database that gateways have seen. The
// response has the newest of the database now.
const NewestPath = "/internal/v1/newest"

// MaxSeen is the largest body with Seen, in bytes.
const MaxSeen = 16 << 10

// Seen has the newest that a service has seen of another's store: the highest mark of the feed and, of history's, the highest checkpoint.
type Seen struct {
	Mark       FeedMark         `json:"mark"`
	Checkpoint SignedCheckpoint `json:"checkpoint"`
}
