package verbs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/desk/forms"
	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
)

func (v *verbs) listings() *cobra.Command {
	c := &cobra.Command{Use: "listings", Short: "List, check, import, export, publish and withdraw listings"}
	c.AddCommand(
		v.listListings(),
		v.showListing(),
		v.importListings(),
		v.lint(),
		schema(),
		v.export(),
		v.publish(),
		v.withdraw(),
	)
	return c
}

func (v *verbs) listListings() *cobra.Command {
	var visibility, status, category, country, search string
	var page page
	c := &cobra.Command{
		Use:   "list",
		Short: "List listings by id, private and withdrawn ones too",
		Long: `List listings by id, private and withdrawn ones too. A listing must match all filters. For whole
listings, use export.`,
		Example: "  opportunity listings list --visibility private --search maple\n  opportunity listings list --status " +
			"needs-review --output json",
		RunE: show(v, adminapi.ListListings, func([]string) adminapi.Input {
			return page.input("visibility", visibility, "status", status, "category", category, "country", country,
				"text", search)
		}, func(out io.Writer, list api.ListingList) {
			table(out, "ID\tCOMPANY\tCATEGORY\tVISIBILITY\tSTATUS\tLAST REVIEW", func(row func(...any)) {
				for _, l := range list.Listings {
					row(l.ID, l.Company, l.Category, l.Visibility, l.Status, formatOptionalTime(l.LastCheckedAt))
				}
			})
			printNextPage(out, "after", list.Next)
		}),
	}
	f := c.Flags()
	flags.Choice(f, &visibility, "visibility", "", "visibility", "private", "published", "withdrawn")
	flags.Choice(f, &status, "status", "", "verification status", "verified", "unverified", "stale", "needs-review")
	flags.Choice(f, &category, "category", "", "category", "online", "sell", "local", "host")
	f.StringVar(&country, "country", "",
		"country code such as CA: listings whose facts say that its residents are eligible")
	f.StringVar(&search, "search", "", "part of the id or the company's name, case-insensitive")
	pageFlags(c, &page)
	return c
}

func (v *verbs) showListing() *cobra.Command {
	return &cobra.Command{
		Use:     "show ID",
		Short:   "Show a listing with its notes and changes, even if private or withdrawn",
		Example: "  opportunity listings show maple-scribe\n  opportunity listings show maple-scribe --output json",
		RunE:    show(v, adminapi.GetListing, withID, showDetail),
	}
}

func showDetail(out io.Writer, d api.ListingDetail) {
	var l listingfile.Line
	_ = json.Unmarshal(d.Listing, &l) // the service encoded it
	table(out, "Listing\t"+l.ID, func(row func(...any)) {
		row("Company", l.Company.Name+"  "+l.Company.Website)
		row("Apply", l.ApplicationURL)
		row("Category", strings.TrimSuffix(string(l.Category)+", "+deref(l.Subcategory), ", "))
		row("Visibility", l.Visibility)
		row("Status", d.Record.Verification.Status)
		row("Last review", formatOptionalTime(d.Record.Verification.LastCheckedAt))
		row("Published", formatOptionalTime(l.PublishedAt))
		row("Changed", formatTime(d.UpdatedAt))
		row("Summary", singleLine(l.Summary))
		row("Starting cost", singleLine(l.StartingCost))
		row("Work model", singleLine(l.WorkModel))
		for _, s := range l.Sources {
			row("Source", strings.TrimSpace(s.URL+"  "+string(deref(s.CheckedAt))))
		}
		if c := l.Curation; c != nil {
			row("Contact", singleLine(c.Contact))
			row("Notes", singleLine(c.Notes))
		}
	})
	var facts bytes.Buffer
	enc := json.NewEncoder(&facts)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	_ = enc.Encode(d.Record.Facts) // cannot fail: it was decoded from JSON
	fmt.Fprintf(out, "\nFacts, as consumers see them:\n%s\n", facts.Bytes())
	table(out, "CHANGED\tBY\tACTION\tFIELDS", func(row func(...any)) {
		for _, a := range d.Changes {
			row(formatTime(a.At), a.Actor, a.Action, strings.Join(a.Fields, ", "))
		}
	})
}

func singleLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func (v *verbs) links() *cobra.Command {
	check := &cobra.Command{
		Use:   "check ID",
		Short: "Read the pages of a listing now",
		Long: `Read the pages of a listing and its application link now, instead of at their time of the
day. The link checker does it under its rules: robots.txt, its pause between requests to a host, and
no page twice within 10 minutes. The desk shows what changed on the pages. If link checks are off,
the command says how to switch them on.`,
		Example: "  opportunity links check maple-scribe",
		RunE: show(v, adminapi.ReadPages, withID,
			func(out io.Writer, due api.PagesDue) { fmt.Fprintln(out, forms.PagesDue(due)) }),
	}
	c := &cobra.Command{Use: "links", Short: "Check application links and pages of listings"}
	c.AddCommand(check)
	return c
}
