package desk

import (
	"encoding/csv"
	"io"
	"net/url"
	"strconv"
	"time"

	"opportunity.internal/cmd/opportunity/internal/operator"
	"opportunity.internal/pkg/api"
)

// auditPage is the data of the audit log.
type auditPage struct {
	Entries      []api.AuditEntry
	Filters      url.Values
	Export, More string
}

var auditFilters = []string{"actor", "action", "account", "before"}

func (d *Desk) audit(v *visit) (view, error) {
	filters := chosen(v.URL.Query(), auditFilters...)
	list, _, err := v.client.Audit(v.Context(), append(pairs(filters), "limit", "100")...)
	if err != nil {
		return view{}, err
	}
	page := auditPage{Entries: list.Entries, Filters: filters, Export: "/audit.csv?" + filters.Encode()}
	if list.Next != 0 {
		page.More = more("/audit", filters, "before", strconv.FormatInt(list.Next, 10))
	}
	return view{Template: "audit", Title: "Audit", Data: page}, nil
}

// auditCSV exports all entries that the filters select, newest first.
func (d *Desk) auditCSV(v *visit) (view, error) {
	filters := chosen(v.URL.Query(), auditFilters...)
	first, _, err := v.client.Audit(v.Context(), append(pairs(filters), "limit", "1000")...)
	if err != nil {
		return view{}, err
	}
	return view{Type: "text/csv; charset=utf-8", Name: "audit.csv", Stream: func(out io.Writer) error {
		w := csv.NewWriter(out)
		_ = w.Write([]string{"at", "actor", "action", "subject", "detail"}) // Error returns the first error
		for page := first; ; {
			for _, e := range page.Entries {
				row := []string{e.At.UTC().Format(time.RFC3339), e.Actor, e.Action, e.Subject, string(e.Detail)}
				for i := range row {
					row[i] = operator.EscapeFormula(row[i])
				}
				_ = w.Write(row)
			}
			if page.Next == 0 {
				break
			}
			filters.Set("before", strconv.FormatInt(page.Next, 10))
			var err error
			if page, _, err = v.client.Audit(v.Context(), append(pairs(filters), "limit", "1000")...); err != nil {
				return err
			}
		}
		w.Flush()
		return w.Error()
	}}, nil
}
