package desk

import (
	"cmp"
	"io"
	"net/url"
	"slices"
	"time"

	"opportunity.internal/cmd/opportunity/internal/desk/forms"
	"opportunity.internal/cmd/opportunity/internal/verbs"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/pages"
)

// auditPage is the data of the list of what people did.
type auditPage struct {
	listPage[act]

	Kinds    []forms.Option
	Accounts bool // whether the role can read the audit log of accounts
	CSV      string
}

// kinds are the kinds of acts to filter by, with the roles that can read them.
var kinds = []struct {
	forms.Option

	roles []api.Role
}{
	{forms.Option{Value: listingActs, Label: "changes of listings"}, curators},
	{forms.Option{Value: reviewActs, Label: "reviews"}, curators},
	{forms.Option{Value: linkCheckActs, Label: "link checks"}, curators},
	{forms.Option{Value: accountActs, Label: "keys and accounts"}, supporters},
}

var auditFilters = []string{"actor", "kind", "record", "account", "action", "from", "to"}

// selectActs returns the log that the filters select, of the kinds that the role can read. Without
// a kind, it leaves out link checks, which are not acts of people.
func selectActs(v *visit, filters url.Values) (log actLog, problems []pages.FormError) {
	log = actLog{Client: v.client, Actor: filters.Get("actor"), Record: filters.Get("record"),
		Account: filters.Get("account"), Action: filters.Get("action")}
	for name, at := range map[string]*time.Time{"from": &log.Since, "to": &log.Until} {
		day, err := time.Parse(time.DateOnly, filters.Get(name))
		if filters.Get(name) != "" && err != nil {
			problems = append(problems, pages.FormError{Field: name, Message: "Enter a date such as 2026-11-20"})
			continue
		}
		if *at = day; name == "to" && !day.IsZero() {
			*at = day.AddDate(0, 0, 1)
		}
	}
	accounts, record := log.Account+log.Action != "", log.Record != ""
	for _, k := range kinds {
		selected := filters.Get("kind") == k.Value || filters.Get("kind") == "" && k.Value != linkCheckActs
		if selected && slices.Contains(k.roles, api.Role(v.Session.Role)) &&
			(k.Value == accountActs && !record || k.Value != accountActs && !accounts) {
			log.Kinds = append(log.Kinds, k.Value)
		}
	}
	return log, problems
}

func (d *Desk) audit(v *visit) (view, error) {
	filters := chosen(v, auditFilters...)
	page := auditPage{CSV: "/audit.csv?" + filters.Encode()}
	for _, k := range kinds {
		if slices.Contains(k.roles, api.Role(v.Session.Role)) {
			page.Kinds = append(page.Kinds, k.Option)
			page.Accounts = page.Accounts || k.Value == accountActs
		}
	}
	log, problems := selectActs(v, filters)
	after, err := parseActCursor(v.FormValue("after"))
	if err != nil {
		problems = append(problems, pages.FormError{Message: "This page no longer exists. Start with the first one"})
	}
	if len(problems) > 0 {
		log.Kinds = nil
	}
	list, next, err := log.Page(v.Context(), after, 100)
	page.listPage = newList(v, filters, list, next.String())
	return view{Template: "audit", Title: "Audit", Data: page, Errors: problems}, err
}

// auditCSV streams all acts that the filters select, newest first.
func (d *Desk) auditCSV(v *visit) (view, error) {
	log, problems := selectActs(v, chosen(v, auditFilters...))
	if len(problems) > 0 {
		return d.audit(v)
	}
	page, next, err := log.Page(v.Context(), actCursor{}, 1000) // the status is not sent yet
	return view{Type: "text/csv; charset=utf-8", Name: "audit.csv", Stream: func(out io.Writer) (failed error) {
		head := []string{"at", "actor", "kind", "action", "subject", "detail"}
		written := verbs.WriteCSV(out, head, func(row func(...string)) {
			for failed == nil {
				for _, a := range page {
					row(a.At.UTC().Format(time.RFC3339), a.Actor, a.Kind, a.Action, a.Subject, a.Detail)
				}
				if next == nil {
					return
				}
				page, next, failed = log.Page(v.Context(), next, 1000)
			}
		})
		return cmp.Or(failed, written)
	}}, err
}
