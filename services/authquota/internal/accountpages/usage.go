package accountpages

import (
	"cmp"
	"fmt"
	"html/template"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/pages"
	"opportunity.internal/services/authquota/internal/keyusage"
	"opportunity.internal/services/authquota/internal/notices"
)

// busiest is the number of keys listed on the page; the others are summed.
const busiest = 20

type usageView struct {
	Today  Allowance
	Chart  template.HTML
	Bars   []keyusage.Bar // newest first
	Groups []keyusage.Group
	Sums   keyusage.Figures // of the chart

	Choices  []int // numbers of days
	Range    keyusage.Range
	Sum      keyusage.Figures
	Outcomes []keyusage.OutcomeCount
	Keys     keyusage.KeyCounts
}

func (p *Pages) usage(v *Visit) (pages.View, error) {
	today, err := p.today(v)
	if err != nil {
		return pages.View{}, err
	}
	charted := keyusage.Last(v.Now, keyusage.ChartDays)
	counts, err := p.Usage.ByDay(v.ctx(), v.Person.Account, charted)
	if err != nil {
		return pages.View{}, err
	}
	bars := keyusage.Since(keyusage.Bars(charted, counts))
	shown := usageView{
		Today: today, Range: keyusage.Last(v.Now, keyusage.ParseDays(v.Query("days"), 30)),
	}
	if shown.Chart, err = keyusage.Chart(bars); err != nil {
		return pages.View{}, err
	}
	shown.Groups, shown.Sums, shown.Choices = keyusage.AllGroups, keyusage.Sum(bars), keyusage.Choices
	shown.Sum = keyusage.Sum(keyusage.Bars(shown.Range, counts))
	shown.Outcomes = keyusage.ByOutcome(shown.Range, counts)
	shown.Keys, err = p.Usage.Busiest(v.ctx(), v.Person.Account, shown.Range, busiest, shown.Sum)
	slices.Reverse(bars)
	shown.Bars = bars
	return pages.View{Template: "usage", Title: "Usage", Data: shown}, err
}

// RangeName returns the label of a number of days.
func (usageView) RangeName(n int) string {
	if n == 1 {
		return "Today"
	}
	return count(n) + " days"
}

// Current returns the label of the shown range within a sentence.
func (u usageView) Current() string {
	if u.Range.Days == 1 {
		return "today"
	}
	return "in the last " + u.RangeName(u.Range.Days)
}

// csv returns the account's usage as a file: all of it, or the days in the query.
func (p *Pages) csv(v *Visit) (pages.View, error) {
	r := keyusage.Last(v.Now, keyusage.ParseDays(v.Query("days"), keyusage.RetentionDays))
	return pages.View{
		Type: "text/csv; charset=utf-8; header=present", Name: "usage-" + r.From + "-to-" + r.To + ".csv",
		Stream: func(w io.Writer) error { return p.Usage.WriteCSV(v.ctx(), w, v.Person.Account, r) },
	}, nil
}

// Allowance is an account's use of its daily quota.
type Allowance struct {
	api.Limits

	Used   int // charged
	Sent   int // charged or not, as far as it is known
	Left   int
	Recent int       // accepted in the last 60 seconds, or -1 if unknown
	Reset  time.Time // when the day ends
	Copied bool      // Used is from the ledger, because the counters are unavailable
}

// Percent returns the used part of the quota, in percent.
func (a Allowance) Percent() int { return min(100, (100*a.Used+a.PerDay-1)/a.PerDay) }

// Low reports whether most of the quota is used.
func (a Allowance) Low() bool { return a.Percent() >= 80 }

// Out reports whether no quota is left.
func (a Allowance) Out() bool { return a.Left == 0 }

// today returns today's allowance of the person's account. Without Redis it uses the ledger and
// sets Copied.
func (p *Pages) today(v *Visit) (Allowance, error) {
	limits, ok := p.Tiers[v.Person.Tier]
	if !ok {
		return Allowance{}, fmt.Errorf("account %s has the unknown tier %q", v.Person.Account, v.Person.Tier)
	}
	a := Allowance{Limits: limits, Reset: v.Now.Truncate(24*time.Hour).AddDate(0, 0, 1)}
	var err error
	if a.Recent, err = p.Counters.Recent(v.ctx(), v.Person.Account); err != nil {
		a.Recent = -1
	}
	if a.Used, err = p.Counters.Used(v.ctx(), v.Person.Account, v.Now); err != nil {
		a.Copied = true
		if a.Used, err = p.Usage.UsedOn(v.ctx(), v.Person.Account, v.Now); err != nil {
			return a, err
		}
	}
	a.Left = max(0, a.PerDay-a.Used)
	today := keyusage.Last(v.Now, 1)
	counts, err := p.Usage.ByDay(v.ctx(), v.Person.Account, today)
	// statistics lag behind the counters by some seconds
	a.Sent = max(a.Used, keyusage.Sum(keyusage.Bars(today, counts)).Total())
	return a, err
}

const requestsPath = "/account/usage/requests"

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

type loggedDay struct {
	Day      time.Time
	Requests []keyusage.Request
}

type logKey struct{ ID, Title string }

func (p *Pages) latestRequests(v *Visit) (pages.View, error) {
	all, err := p.Usage.RecentRequests(v.ctx(), v.Person.Account)
	f := keyusage.RequestFilter{ID: strings.ToLower(strings.TrimSpace(v.Query("id"))), Key: v.Query("key")}
	if result := keyusage.Result(v.Query("result")); slices.Contains(keyusage.Results, result) {
		f.Result = result
	}
	found := f.Apply(all)
	shown := logView{
		Filter: f, Keys: keysOf(all), Results: keyusage.Results, Empty: len(all) == 0, Found: len(found),
		Most: api.RequestLogSize,
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

func byDay(requests []keyusage.Request) (days []loggedDay) {
	for _, r := range requests {
		day := r.At.UTC().Truncate(24 * time.Hour)
		if len(days) == 0 || !days[len(days)-1].Day.Equal(day) {
			days = append(days, loggedDay{Day: day})
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
	return strings.TrimSuffix(requestsPath+"?"+query.Encode(), "?")
}

const noticesPath = "/account/notices"

// noticesView has the kinds of notices and which of them the person gets.
type noticesView struct {
	All    []notices.Choice
	Wanted map[notices.Kind]bool
}

func (p *Pages) noticesForm(v *Visit) (pages.View, error) {
	wanted, err := p.Notices.Choices(v.ctx(), v.Person.Account)
	return pages.View{Template: "notices", Title: "Notices", Data: noticesView{notices.All, wanted}}, err
}

func (p *Pages) chooseNotices(v *Visit) (pages.View, error) {
	sent, wanted := v.PostFormArray("notice"), map[notices.Kind]bool{}
	for _, c := range notices.All {
		wanted[c.Kind] = slices.Contains(sent, string(c.Kind))
	}
	err := p.Notices.Choose(v.ctx(), v.Person.Account, wanted)
	return pages.View{Redirect: noticesPath, Notice: "Your choice was saved."}, err
}
