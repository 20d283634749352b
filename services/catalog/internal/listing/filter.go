package listing

import (
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
