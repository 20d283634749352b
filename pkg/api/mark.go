package api

// Change identifies a change of a store. Its id is random, so only the store that made the change, and exact copies of it, have it: a store
// restored from an older backup lacks it even after it has used the sequence again.
type Change struct {
	Sequence int64  `json:"sequence"`
	ID       string `json:"id"` // of the event, or of the transaction
}

// SetBackCondition is the name of the readiness condition that a service lacks while its database is set back.
const SetBackCondition = "set back"

// The protocol of high-water marks, see package highwater. Marks are texts that only the owner of the store can make and read.
const (
	// SeenMarksHeader is the header of a request to the owner of a store with the newest marks that the caller has seen, comma-separated. It is
	// empty if the caller has seen none.
	SeenMarksHeader = "X-Opportunity-Seen-Marks"
	// MarkHeader is the header of the response with the newest mark. The owner has verified those of the request.
	MarkHeader = "X-Opportunity-Mark"
	// LostHeader is set besides MarkHeader if an operator has accepted that the store lacks one of the marks of the request.
	LostHeader = "X-Opportunity-Mark-Lost"

	// MarkPath is the path for requests that only exchange marks. The response has no body.
	MarkPath = "/internal/v1/mark"
	// MarksPath, with the name of another service, is the path of the marks that a service keeps for it: GET returns KeptMarks, and POST replaces
	// them as ReplaceMarks says.
	MarksPath = "/internal/v1/marks/"
)

// KeptMarks has the marks that a service keeps.
type KeptMarks struct {
	Marks []string `json:"marks"`
}

// ReplaceMarks replaces the marks that a service keeps by the newest, unless they differ from those that the owner has verified.
type ReplaceMarks struct {
	Seen   []string `json:"seen"`
	Newest string   `json:"newest"`
	Lost   bool     `json:"lost"` // an operator has accepted that the store lacks one of Seen
}
