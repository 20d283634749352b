package httpapi

import (
	"math"
	"net/url"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/catalog/internal/listing"
)

// Limits of lists for curators.
const (
	listLimit = 100 // default page size
	maxText   = 200 // characters of a search text
)

// listings returns a page of listings for curators, including private and withdrawn ones.
func (a API) listings(g *gin.Context) (web.Reply, error) {
	values, err := params.Read(g.Request.URL.RawQuery, "visibility", "status", "category", "country", "text", "host",
		"dueBefore", "holder",
		"after", "limit")
	if err != nil {
		return web.Reply{}, err
	}
	filter, after, limit, err := listingPage(values)
	if err != nil {
		return web.Reply{}, err
	}
	web.Extend(g, workTime)
	list, err := a.Desk.List(g.Request.Context(), filter, after, limit)
	return web.Reply{JSON: list}, err
}

// listingPage reads a filter and the position of a page.
func listingPage(values params.Values) (f listing.Filter, after string, limit int, err error) {
	if limit, err = values.Integer("limit", 1, api.MaxOperatorPageSize, listLimit); err != nil {
		return f, "", 0, err
	}
	if f, err = listingFilter(values); err != nil {
		return f, "", 0, err
	}
	after, given := values["after"]
	if given && !api.ValidSlug(after) {
		return f, "", 0, problem.Invalid("after", "must be the id of a listing: use next of the page before")
	}
	return f, after, limit, nil
}

func listingFilter(values params.Values) (f listing.Filter, err error) {
	if f.Visibility, err = oneOf(values, "visibility", listingfile.Private, listingfile.Published,
		listingfile.Withdrawn); err != nil {
		return f, err
	}
	if f.Status, err = oneOf(values, "status", api.Verified, api.Unverified, api.Stale, api.NeedsReview); err != nil {
		return f, err
	}
	if f.Category, err = oneOf(values, "category", api.Categories...); err != nil {
		return f, err
	}
	f.Country = strings.ToUpper(values["country"])
	if f.Country != "" && (len(f.Country) != 2 || strings.Trim(f.Country, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "") {
		return f, problem.Invalid("country", "must be two letters (ISO 3166-1), such as CA")
	}
	if f.DueBefore, err = values.Time("dueBefore"); err != nil {
		return f, err
	}
	for name, text := range map[string]*string{"text": &f.Text, "host": &f.Host, "holder": &f.Holder} {
		if *text, err = searchText(values, name); err != nil {
			return f, err
		}
	}
	f.Host = strings.ToLower(f.Host)
	return f, nil
}

// oneOf reads an enumerated parameter. It returns "" if the request does not have it.
func oneOf[T ~string](values params.Values, name string, allowed ...T) (T, error) {
	value, given := values[name]
	if !given || slices.Contains(allowed, T(value)) {
		return T(value), nil
	}
	names := make([]string, len(allowed))
	for i, v := range allowed {
		names[i] = string(v)
	}
	return "", problem.Invalid(name, "must be one of "+strings.Join(names, ", "))
}

// candidates returns a page of private listings with what they lack.
func (a API) candidates(g *gin.Context) (web.Reply, error) {
	values, err := params.Read(g.Request.URL.RawQuery, "category", "text", "host", "holder", "after", "limit")
	if err != nil {
		return web.Reply{}, err
	}
	filter, after, limit, err := listingPage(values)
	if err != nil {
		return web.Reply{}, err
	}
	list, err := a.Desk.Candidates(g.Request.Context(), filter, after, limit)
	return web.Reply{JSON: list}, err
}

// changes returns a page of what operators did to listings.
func (a API) changes(g *gin.Context) (web.Reply, error) {
	values, err := params.Read(g.Request.URL.RawQuery, "actor", "listing", "action", "since", "until", "before",
		"limit")
	if err != nil {
		return web.Reply{}, err
	}
	f := listing.ActFilter{Listing: values["listing"]}
	if f.Listing != "" && !api.ValidSlug(f.Listing) {
		return web.Reply{}, problem.Invalid("listing", "must be the id of a listing")
	}
	if f.Actor, err = searchText(values, "actor"); err != nil {
		return web.Reply{}, err
	}
	if f.Action, err = oneOf(values, "action", "imported", "updated", "published", "withdrawn",
		proposed, declined); err != nil {
		return web.Reply{}, err
	}
	if f.Since, err = values.Time("since"); err != nil {
		return web.Reply{}, err
	}
	if f.Until, err = values.Time("until"); err != nil {
		return web.Reply{}, err
	}
	before, err := values.Integer("before", 1, math.MaxInt, 0)
	if err != nil {
		return web.Reply{}, err
	}
	f.Before = int64(before)
	if f.Limit, err = values.Integer("limit", 1, api.MaxOperatorPageSize, listLimit); err != nil {
		return web.Reply{}, err
	}
	list, err := a.Desk.Changes(g.Request.Context(), f)
	return web.Reply{JSON: list}, err
}

// status returns the counts of the free set and the excluded records.
func (a API) status(g *gin.Context) (web.Reply, error) {
	if _, err := params.Read(g.Request.URL.RawQuery); err != nil {
		return web.Reply{}, err
	}
	view, err := a.Catalog.View()
	if err != nil {
		return web.Reply{}, err
	}
	return web.Reply{JSON: api.CatalogStatus{GeneratedAt: view.Now(), FreeSet: view.FreeSet()}}, nil
}

// overview describes the published records for the front page that the gateway serves.
func (a API) overview(*gin.Context) (web.Reply, error) {
	view, err := a.Catalog.View()
	if err != nil {
		return web.Reply{}, err
	}
	return web.Reply{JSON: view.Overview()}, nil
}

// publicRecord serves everything of a published record for its permalink. The newest event comes
// from the history service.
func (a API) publicRecord(g *gin.Context) (web.Reply, error) {
	view, err := a.Catalog.View()
	if err != nil {
		return web.Reply{}, err
	}
	id := g.Param("id")
	record, ok := view.Find(id, api.AllRecordsPlan().Tier)
	if !ok {
		return web.Reply{}, problem.New(problem.NotFound, "There is no public record with this id.")
	}
	_, free := view.Find(id, api.BaseTier)
	reply := api.PublicRecord{Record: record.Append(nil), At: view.Now(), Free: free}
	err = fromHistory(a.History.Get(g.Request.Context(), "/internal/v1/records/"+url.PathEscape(id)+"/latest",
		&reply.Events))
	return web.Reply{JSON: reply}, err
}
