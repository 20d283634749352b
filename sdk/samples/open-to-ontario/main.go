// Command open-to-ontario updates a copy of all records, and prints the remote platforms that are
// open to residents of Ontario, each with its evidence. Run it every 15 minutes.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"slices"
	"time"

	"opportunity.internal/sdk/go/opportunity"
)

const file = "opportunities.ndjson"

func main() {
	client, err := opportunity.New()
	if err != nil {
		log.Fatal(err)
	}
	store, err := opportunity.OpenFileCopy(file)
	if err != nil {
		log.Fatal(err)
	}
	// After a failure, the copy is as before: show it with the dates that it has.
	if _, err := client.Sync(context.Background(), store, opportunity.SyncOptions{}); err != nil {
		log.Print(err)
	}
	if err := show(time.Now()); err != nil {
		log.Fatal(err)
	}
}

// show prints the records of the copy that match at now.
func show(now time.Time) error {
	copied, err := os.Open(file)
	if err != nil {
		return err
	}
	defer copied.Close()
	filter := opportunity.SearchFilter{
		Country: "CA", Province: "ON", Remote: opportunity.True, Verified: opportunity.True, ApplicationStatus: "open",
	}
	lines := bufio.NewScanner(copied)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var record opportunity.Opportunity
		if err := json.Unmarshal(lines.Bytes(), &record); err != nil {
			return err
		}
		found, err := opportunity.Matches(record, filter, now)
		if err != nil {
			return err
		}
		if found {
			print(record)
		}
	}
	return lines.Err()
}

func print(record opportunity.Opportunity) {
	v := record.Verification
	fmt.Printf("%s: verified on %s, counts until %s\n", record.Company.Name, day(v.LastCheckedAt), day(v.FreshUntil))
	canada := slices.IndexFunc(record.Facts.CountryEligibility, func(c opportunity.CountryEligibility) bool {
		return c.Country == "CA"
	})
	for _, source := range record.Facts.CountryEligibility[canada].SourceURLs {
		fmt.Printf("  open to Ontario, says %s\n", source)
	}
	for _, source := range record.Sources {
		fmt.Printf("  source: %s\n", source.URL)
	}
}

func day(at *time.Time) string { return at.Format("2006-01-02") }
