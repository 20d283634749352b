package accountpages

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/pages"
	"opportunity.internal/services/authquota/internal/keyusage"
)

const requestsPath = "/account/usage/requests"

// logView is the data of the page.
type logView struct {
	Filter   keyusage.RequestFilter
	Keys     []logKey
	Results  []keyusage.Result
	Empty    bool // no request is logged
	Found    int
	Requests []keyusage.Request
	Older    string      // URL of the next page, if any
	First    string      // URL of the first page, unless it is shown
	Days     []loggedDay // those of Requests
	Most     int
	Kept     int // days
}

// loggedDay has the requests of a UTC day.
type loggedDay struct {
	Day, Title string
	Requests   []keyusage.Request
}

// logKey is a choice of the filter.
type logKey struct{ ID, Title string }

func (p *Pages) latestRequests(v *Visit) (pages.View, error) {
	all, err := p.RequestLog.Recent(v.Request.Context(), v.Person.Account)
	f := keyusage.RequestFilter{ID: strings.ToLower(strings.TrimSpace(v.Query("id"))), Key: v.Query("key")}
	if result := keyusage.Result(v.Query("result")); slices.Contains(keyusage.Results, result) {
		f.Result = result
	}
	found := f.Apply(all)
	shown := logView{
		Filter: f, Keys: keysOf(all), Results: keyusage.Results, Empty: len(all) == 0, Found: len(found), Most: api.RequestLogSize,
		Kept: int(api.RequestLogDuration.Hours() / 24),
	}
	var more bool
	shown.Requests, more = keyusage.RequestPage(found, v.Query("after"))
	shown.Days = byDay(shown.Requests)
	if more {
		shown.Older = requestsURL(f, shown.Requests[len(shown.Requests)-1].ID)
	}
	if len(shown.Requests) > 0 && shown.Requests[0].ID != found[0].ID {
		shown.First = requestsURL(f, "")
	}
	return pages.View{Template: "requests", Title: "Requests", Data: shown}, err
}

// byDay returns the requests by UTC day, in their order.
func byDay(requests []keyusage.Request) (days []loggedDay) {
	for _, r := range requests {
		day := r.At.UTC().Format(time.DateOnly)
		if len(days) == 0 || days[len(days)-1].Day != day {
			days = append(days, loggedDay{Day: day, Title: r.At.UTC().Format("2 January 2006")})
		}
		last := &days[len(days)-1]
		last.Requests = append(last.Requests, r)
	}
	return days
}

func keysOf(all []keyusage.Request) (list []logKey) {
	for _, r := range all {
		k := logKey{r.Key, strings.TrimSpace(r.KeyName + " " + r.KeyShown)}
		if !slices.Contains(list, k) {
			list = append(list, k)
		}
	}
	slices.SortFunc(list, func(a, b logKey) int { return cmp.Compare(a.Title, b.Title) })
	return list
}

func requestsURL(f keyusage.RequestFilter, after string) string {
	query := url.Values{}
	for name, value := range map[string]string{"id": f.ID, "key": f.Key, "result": string(f.Result), "after": after} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if len(query) == 0 {
		return requestsPath
	}
	return requestsPath + "?" + query.Encode()
}
