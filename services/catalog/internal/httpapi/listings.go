package httpapi

import (
	"math"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/catalog/internal/listing"
	"opportunity.internal/services/catalog/internal/store"
)

// Limits of lists for curators.
const (
	listLimit = 100 // default page size
	maxText   = 200 // characters of a search text
)

func (a API) listings(r request) (web.Reply, error) {
	filter, after, limit, err := listingPage(r.values)
	if err != nil {
		return web.Reply{}, err
	}
	web.Extend(r.Context, workTime)
	return web.JSON(a.Curation.List(r.context(), filter, after, limit))
}

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
	var errs [8]error
	f.Visibility, errs[0] = params.OneOf(values, "visibility", listingfile.Private, listingfile.Published,
		listingfile.Withdrawn)
	f.Status, errs[1] = params.OneOf(values, "status", api.Verified, api.Unverified, api.Stale, api.NeedsReview)
	f.Category, errs[2] = params.OneOf(values, "category", api.Categories...)
	f.Country = strings.ToUpper(values["country"])
	if f.Country != "" && (len(f.Country) != 2 || strings.Trim(f.Country, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "") {
		errs[3] = problem.Invalid("country", "must be two letters (ISO 3166-1), such as CA")
	}
	f.DueBefore, errs[4] = values.Time("dueBefore")
	f.Text, errs[5] = searchText(values, "text")
	f.Host, errs[6] = searchText(values, "host")
	f.Holder, errs[7] = searchText(values, "holder")
	f.Host = strings.ToLower(f.Host)
	return f, params.Join(errs[:]...)
}

func searchText(values params.Values, name string) (string, error) {
	text := values[name]
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) || utf8.RuneCountInString(text) > maxText {
		return "", problem.Invalid(name, "must have at most 200 characters")
	}
	return text, nil
}

func (a API) candidates(r request) (web.Reply, error) {
	filter, after, limit, err := listingPage(r.values)
	if err != nil {
		return web.Reply{}, err
	}
	return web.JSON(a.Curation.Candidates(r.context(), filter, after, limit))
}

func (a API) changes(r request) (web.Reply, error) {
	values := r.values
	var errs [7]error
	f := listing.ActFilter{Listing: values["listing"]}
	if f.Listing != "" && !api.ValidSlug(f.Listing) {
		errs[0] = problem.Invalid("listing", "must be the id of a listing")
	}
	f.Actor, errs[1] = searchText(values, "actor")
	f.Action, errs[2] = params.OneOf(values, "action", "imported", "updated", "published", "withdrawn",
		store.Proposed, store.Declined)
	f.Since, errs[3] = values.Time("since")
	f.Until, errs[4] = values.Time("until")
	before, err := values.Integer("before", 1, math.MaxInt, 0)
	f.Before, errs[5] = int64(before), err
	f.Limit, errs[6] = values.Integer("limit", 1, api.MaxOperatorPageSize, listLimit)
	if err := params.Join(errs[:]...); err != nil {
		return web.Reply{}, err
	}
	return web.JSON(a.Listings.Acts(r.context(), f))
}

func (a API) status(request) (web.Reply, error) {
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
