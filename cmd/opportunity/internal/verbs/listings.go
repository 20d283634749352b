package verbs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
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
	var visibility, status, category, country, search, output string
	var page adminapi.Page
	c := &cobra.Command{
		Use:   "list",
		Short: "List listings by id, private and withdrawn ones too",
		Long: `List listings by id, private and withdrawn ones too. A listing must match all filters.

--output jsonl prints one listing per line; csv prints a table for spreadsheets. Both print
summaries: use export for whole listings.`,
		Example: "  opportunity listings list --visibility private --search maple\n  opportunity listings list --status " +
			"needs-review --output csv",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := v.client()
			if err != nil {
				return err
			}
			list, raw, err := c.ListingList(cmd.Context(), page,
				"visibility", visibility, "status", status, "category", category, "country", country, "text", search)
			if err != nil {
				return err
			}
			return printListings(Printable(cmd.OutOrStdout()), cmd.ErrOrStderr(), list, raw, output)
		},
	}
	f := c.Flags()
	flags.Choice(f, &visibility, "visibility", "", "visibility", "private", "published", "withdrawn")
	flags.Choice(f, &status, "status", "", "verification status", "verified", "unverified", "stale", "needs-review")
	flags.Choice(f, &category, "category", "", "category", "online", "sell", "local", "host")
	f.StringVar(&country, "country", "",
		"country code such as CA: listings whose facts say that its residents are eligible")
	f.StringVar(&search, "search", "", "part of the id or the company's name, case-insensitive")
	flags.Choice(f, &output, "output", "text", "output format", "text", "json", "jsonl", "csv")
	flags.Number(f, &page.Limit, "limit", 0,
		fmt.Sprintf("maximum number of listings, up to %d (default 100)", api.MaxOperatorPageSize))
	f.StringVar(&page.After, "after", "", "start after the listing with this id")
	return c
}

func printListings(out, errs io.Writer, list api.ListingList, raw []byte, output string) error {
	switch output {
	case "json":
		fmt.Fprintf(out, "%s\n", raw)
		return nil
	case "jsonl":
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		for _, l := range list.Listings {
			if err := enc.Encode(l); err != nil {
				return err
			}
		}
	case "csv":
		if err := listingsCSV(out, list); err != nil {
			return err
		}
	default:
		table(out, "ID\tCOMPANY\tCATEGORY\tVISIBILITY\tSTATUS\tLAST REVIEW", func(row func(...any)) {
			for _, l := range list.Listings {
				row(l.ID, l.Company, l.Category, l.Visibility, l.Status, formatOptionalTime(l.LastCheckedAt))
			}
		})
		errs = out
	}
	printNextPage(errs, "after", list.Next)
	return nil
}

func listingsCSV(out io.Writer, list api.ListingList) error {
	return WriteCSV(out, []string{
		"id", "company", "category", "visibility", "status", "application_status", "sources", "published_at",
		"last_checked_at", "updated_at",
	}, func(row func(...string)) {
		for _, l := range list.Listings {
			row(l.ID, l.Company, string(l.Category), l.Visibility, string(l.Status), string(l.ApplicationStatus),
				strconv.Itoa(l.Sources),
				rfc3339(l.PublishedAt), rfc3339(l.LastCheckedAt), rfc3339(&l.UpdatedAt))
		}
	})
}

func rfc3339(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func formatOptionalTime(t *time.Time) string {
	if t == nil {
		return "never"
	}
	return formatTime(*t)
}

func (v *verbs) showListing() *cobra.Command {
	return &cobra.Command{
		Use:     "show ID",
		Short:   "Show a listing with its notes and changes, even if private or withdrawn",
		Example: "  opportunity listings show maple-scribe\n  opportunity listings show maple-scribe --output json",
		RunE: func(cmd *cobra.Command, args []string) error {
			var line listingfile.Line
			return show(v, func(ctx context.Context, c adminapi.Client, args []string) (api.ListingDetail, []byte, error) {
				detail, raw, err := c.Listing(ctx, args[0])
				if err == nil {
					err = json.Unmarshal(detail.Listing, &line)
				}
				return detail, raw, err
			}, func(out io.Writer, detail api.ListingDetail) { showDetail(out, detail, line) })(cmd, args)
		},
	}
}

func showDetail(out io.Writer, d api.ListingDetail, l listingfile.Line) {
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
