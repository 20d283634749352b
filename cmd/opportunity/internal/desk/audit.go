package desk

import (
	"cmp"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/desk/forms"
	"opportunity.internal/cmd/opportunity/internal/verbs"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/pages"
)

// auditPage is the data of a list of what people did.
type auditPage struct {
	listPage[act]

	Log  string
	Logs []forms.Option // that the role can read
	CSV  string
}

// act is an entry of a log.
type act struct {
	At      time.Time
	Actor   string
	Action  string
	Subject string // id of a listing, account, key or request
	Detail  string
}

// Logs of the API. A role reads the first one of its own unless it chooses another.
const (
	listingActs   = "listing"
	reviewActs    = "review"
	linkCheckActs = "link-check"
	accountActs   = "account"
)

func logsOf(v *visit) (logs []forms.Option) {
	role := api.Role(v.Session.Role)
	if slices.Contains(curators, role) {
		logs = append(logs, forms.Option{Value: listingActs, Label: "changes of listings"},
			forms.Option{Value: reviewActs, Label: "reviews"}, forms.Option{Value: linkCheckActs, Label: "link checks"})
	}
	if slices.Contains(supporters, role) {
		logs = append(logs, forms.Option{Value: accountActs, Label: "keys and accounts"})
	}
	return logs
}

// selectActs returns the log that the person chose, and its query.
func selectActs(v *visit) (log string, query url.Values, problems []pages.FormError) {
	log, query = logsOf(v)[0].Value, chosen(v, "actor")
	for _, o := range logsOf(v) {
		if o.Value == v.FormValue("log") {
			log = o.Value
		}
	}
	for name, parameter := range map[string]string{"from": "since", "to": "until"} {
		if v.FormValue(name) == "" {
			continue
		}
		day, err := time.Parse(time.DateOnly, v.FormValue(name))
		if err != nil {
			problems = append(problems, pages.FormError{Field: name, Message: "Enter a date such as 2026-11-20"})
		}
		if name == "to" { // the day counts
			day = day.AddDate(0, 0, 1)
		}
		query.Set(parameter, day.Format(time.RFC3339))
	}
	if log == accountActs {
		maps.Copy(query, chosen(v, "account", "action"))
	} else {
		maps.Copy(query, adminapi.Query("listing", v.FormValue("record")))
	}
	return log, query, problems
}

// acts returns up to limit acts of a log before a position, newest first. next is the position of
// the ones after them, empty if there are none.
func acts(v *visit, log string, query url.Values, before string, limit int) (all []act, next string, err error) {
	in := limited(query, limit)
	maps.Copy(in.Query, adminapi.Query("before", before))
	var last int64
	switch log {
	case listingActs:
		list, failed := call(v, adminapi.ListChanges, in)
		for _, a := range list.Acts {
			detail := strings.Trim(strings.Join(a.Fields, ", ")+"; "+a.Reason, "; ")
			all = append(all, act{a.At, a.Actor, a.Action, a.Listing, detail})
		}
		last, err = list.Next, failed
	case accountActs:
		list, failed := call(v, adminapi.ListAudit, in)
		for _, e := range list.Entries {
			all = append(all, act{e.At, e.Actor, e.Action, e.Subject, string(e.Detail)})
		}
		last, err = list.Next, failed
	default:
		checks := map[string]api.CheckType{reviewActs: api.FactualReview, linkCheckActs: api.LinkCheck}
		in.Query.Set("checkType", string(checks[log]))
		list, failed := call(v, adminapi.ListEvents, in)
		for _, e := range list.Events {
			all = append(all, act{e.RecordedAt, e.Actor, string(e.Outcome), e.Slug, e.Note})
		}
		last, err = list.Next, failed
	}
	if last != 0 {
		next = strconv.FormatInt(last, 10)
	}
	return all, next, err
}

func (d *Desk) audit(v *visit) (view, error) {
	log, query, problems := selectActs(v)
	filters := chosen(v, "actor", "log", "record", "account", "action", "from", "to")
	page := auditPage{newList[act](v, filters, nil, ""), log, logsOf(v), "/audit.csv?" + filters.Encode()}
	if len(problems) > 0 {
		return view{Template: "audit", Title: "Audit", Data: page, Errors: problems}, nil
	}
	list, next, err := acts(v, log, query, v.FormValue("after"), 100)
	page.listPage = newList(v, filters, list, next)
	return view{Template: "audit", Title: "Audit", Data: page}, err
}

// auditCSV streams all acts of the log that the filters select, newest first.
func (d *Desk) auditCSV(v *visit) (view, error) {
	log, query, problems := selectActs(v)
	if len(problems) > 0 {
		return d.audit(v)
	}
	page, next, err := acts(v, log, query, "", 1000) // the status is not sent yet
	return view{Type: "text/csv; charset=utf-8", Name: "audit.csv", Stream: func(out io.Writer) (failed error) {
		written := verbs.WriteCSV(out, []string{"at", "actor", "action", "subject", "detail"}, func(row func(...string)) {
			for failed == nil {
				for _, a := range page {
					row(a.At.UTC().Format(time.RFC3339), a.Actor, a.Action, a.Subject, a.Detail)
				}
				if next == "" {
					return
				}
				page, next, failed = acts(v, log, query, next, 1000)
			}
		})
		return cmp.Or(failed, written)
	}}, err
}
