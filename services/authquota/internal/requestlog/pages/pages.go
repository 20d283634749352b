// Package pages holds the page of an account's latest requests.
package pages

import (
	"cmp"
	"context"
	"embed"
	"net/url"
	"slices"
	"strings"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/requestlog"
	"opportunity.internal/services/authquota/internal/site"
)

// Log reads the request log.
type Log interface {
	// Recent returns the latest requests of an account, newest first.
	Recent(ctx context.Context, accountID string) ([]requestlog.Request, error)
}

// Pages holds the dependencies of the page.
type Pages struct{ Log Log }

//go:embed templates
var templates embed.FS

const path = "/account/usage/requests"

// Feature returns the page with its access level.
func (p *Pages) Feature() site.Feature {
	return site.Feature{Templates: templates, Routes: []site.Route{site.Get(path, site.SignedIn, p.requests)}}
}

// logView is the data of the page.
type logView struct {
	Filter   requestlog.Filter
	Keys     []key
	Results  []requestlog.Result
	Empty    bool // no request is logged
	Found    int
	Requests []requestlog.Request
	Older    string // URL of the next page, if any
	First    string // URL of the first page, unless it is shown
	Most     int
	Days     int
}

// key is a choice of the filter.
type key struct{ ID, Title string }

func (p *Pages) requests(v *site.Visit) (site.View, error) {
	all, err := p.Log.Recent(v.Request.Context(), v.Person.Account)
	f := requestlog.Filter{ID: strings.ToLower(strings.TrimSpace(v.Query("id"))), Key: v.Query("key")}
	if result := requestlog.Result(v.Query("result")); slices.Contains(requestlog.Results, result) {
		f.Result = result
	}
	found := f.Apply(all)
	shown := logView{
		Filter: f, Keys: keysOf(all), Results: requestlog.Results, Empty: len(all) == 0, Found: len(found), Most: api.RequestLogSize,
		Days: int(api.RequestLogDuration.Hours() / 24),
	}
	var more bool
	shown.Requests, more = requestlog.Page(found, v.Query("after"))
	if more {
		shown.Older = address(f, shown.Requests[len(shown.Requests)-1].ID)
	}
	if len(shown.Requests) > 0 && shown.Requests[0].ID != found[0].ID {
		shown.First = address(f, "")
	}
	return site.View{Template: "requests", Title: "Requests", Data: shown}, err
}

// keysOf returns the keys of the requests, by title.
func keysOf(all []requestlog.Request) (list []key) {
	for _, r := range all {
		k := key{r.Key, strings.TrimSpace(r.KeyName + " " + r.KeyShown)}
		if !slices.Contains(list, k) {
			list = append(list, k)
		}
	}
	slices.SortFunc(list, func(a, b key) int { return cmp.Compare(a.Title, b.Title) })
	return list
}

// address returns the URL of a page of the filtered requests.
func address(f requestlog.Filter, after string) string {
	query := url.Values{}
	for name, value := range map[string]string{"id": f.ID, "key": f.Key, "result": string(f.Result), "after": after} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}
