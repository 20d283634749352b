package store

import (
	"encoding/json"
	"net/url"
	"strings"
	"unicode"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/catalog/internal/listing"
	"opportunity.internal/services/catalog/internal/review"
)

// indexRow has the columns by which curators find a listing. See the migration for their meaning.
type indexRow struct {
	ListingID         string `gorm:"primaryKey"`
	Visibility        string
	Category          string
	Company           string
	NameKey           string
	Host              string
	Words             string
	Countries         string
	Sources           int
	ApplicationStatus string
	LinkOutcome       string
	Status            string
	DueAt             int64
	Whys              string
	Reasons           string
	LastCheckedAt     *int64
	Facts             int
	Quoted            int
}

func (indexRow) TableName() string { return "listing_index" }

// saveIndex derives and writes the index rows of listings with the known summaries. Listings that
// are not among the existing ones are new.
func saveIndex(tx *gorm.DB, listings []listing.Entry, existing []string, known map[string]api.Summary) error {
	edits, err := materialEdits(tx, existing)
	if err != nil {
		return err
	}
	rows := make([]indexRow, len(listings))
	for i, e := range listings {
		if rows[i], err = newIndexRow(review.Record{Entry: e, Summary: known[e.ID], Edits: edits[e.ID]}); err != nil {
			return err
		}
	}
	return database.Insert(tx, rows, "listing_id")
}

func newIndexRow(r review.Record) (indexRow, error) {
	reasons := r.Reasons()
	text, err := json.Marshal(reasons)
	if err != nil {
		return indexRow{}, err
	}
	row := indexRow{
		ListingID: r.Entry.ID, Visibility: string(r.Entry.Visibility), Category: string(r.Entry.Category),
		Company: r.Entry.Company.Name,
		NameKey: nameKey(r.Entry.Company.Name), Host: host(r.Entry.Company.Website),
		Words:   api.Fold(r.Entry.ID + " " + r.Entry.Company.Name),
		Sources: len(r.Entry.Sources), Status: string(r.Status()), Reasons: string(text),
		LastCheckedAt: toMicros(r.Summary.LastCheckedAt),
	}
	if known := r.Summary.Facts; known != nil {
		row.Facts = len(api.Unquoted(*known, nil))
		row.Quoted = row.Facts - len(r.Summary.Unquoted)
	}
	facts := r.Facts()
	row.ApplicationStatus = string(facts.ApplicationStatus)
	for _, c := range facts.CountryEligibility {
		if c.Status == api.Eligible {
			row.Countries += "," + c.Country
		}
	}
	if l := r.Summary.ApplicationLink; l != nil {
		row.LinkOutcome = string(l.Outcome)
	}
	for i, reason := range reasons {
		if reason.Why != api.DueStale || i == 0 { // later, it is not why the record is due
			row.Whys += "," + reason.Why
		}
	}
	row.Countries, row.Whys = row.Countries+",", row.Whys+","
	if at := reasons[0].At; !at.IsZero() {
		row.DueAt = database.Micros(at)
	}
	return row, nil
}

// host returns the host of an address in lower case, without www. and a final dot, or an empty
// string.
func host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), "www.")
}

// legalForms are words that do not distinguish companies.
var legalForms = map[string]bool{"inc": true, "ltd": true, "llc": true, "corp": true, "co": true, "gmbh": true,
	"limited": true, "the": true}

// nameKey returns the folded letters and digits of a company's name, without legal forms.
func nameKey(name string) string {
	words := strings.FieldsFunc(api.Fold(name), func(r rune) bool {
		return !unicode.In(r, unicode.L, unicode.N,
			unicode.M)
	})
	var key strings.Builder
	for _, w := range words {
		if !legalForms[w] {
			key.WriteString(w)
		}
	}
	return key.String()
}

// Namesake has what makes a listing look like a duplicate of another one.
type Namesake struct{ ListingID, Visibility, Host, NameKey string }

// Alike returns what two listings have in common: "host", "name" or "both"; empty if nothing, or if
// they are one.
func (n Namesake) Alike(other Namesake) string {
	host, name := n.Host != "" && n.Host == other.Host, n.NameKey != "" && n.NameKey == other.NameKey
	switch {
	case n.ListingID == other.ListingID, !host && !name:
		return ""
	case !name:
		return "host"
	case !host:
		return "name"
	}
	return "both"
}

// MaxDuplicates is the maximum number of duplicates that are named for a listing.
const MaxDuplicates = 10

// Namesakes returns stored listings with the host or the company name of one of the given ones,
// ordered by id: of each host and each name the first MaxDuplicates besides the given one. Many
// listings may have the same host, that of an app store for example.
func Namesakes(tx *gorm.DB, of []Namesake) (known []Namesake, err error) {
	hosts, names := []string{""}, []string{""}
	for _, n := range of {
		hosts, names = append(hosts, n.Host), append(names, n.NameKey)
	}
	err = tx.Raw(`SELECT i.listing_id, i.visibility, i.host, i.name_key FROM listing_index i WHERE i.listing_id IN (
			SELECT listing_id FROM (SELECT listing_id, row_number() OVER (PARTITION BY host ORDER BY listing_id) AS place
				FROM listing_index WHERE host IN @hosts AND host <> '') AS same_host WHERE place <= @most
			UNION
			SELECT listing_id FROM (SELECT listing_id, row_number() OVER (PARTITION BY name_key ORDER BY listing_id) AS place
				FROM listing_index WHERE name_key IN @names AND name_key <> '') AS same_name WHERE place <= @most)
		ORDER BY i.listing_id`, map[string]any{"hosts": hosts, "names": names, "most": MaxDuplicates + 1}).Scan(&known).Error
	return known, database.Outage(err)
}
