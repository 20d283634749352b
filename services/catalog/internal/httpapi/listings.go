package httpapi

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/catalog/internal/listing"
)

// Limits of lists for curators.
const (
	listLimit    = 100 // default page size
	maxListLimit = 1000
	maxText      = 200 // characters of a search text
)

// listings returns a page of listings for curators, including private and withdrawn ones.
func (a API) listings(g *gin.Context) (web.Reply, error) {
	values, err := params.Read(g.Request.URL.RawQuery, "visibility", "status", "category", "country", "text", "after", "limit")
	if err != nil {
		return web.Reply{}, err
	}
	limit, err := values.Integer("limit", 1, maxListLimit, listLimit)
	if err != nil {
		return web.Reply{}, err
	}
	filter, err := listingFilter(values)
	if err != nil {
		return web.Reply{}, err
	}
	after, given := values["after"]
	if given && !api.ValidSlug(after) {
		return web.Reply{}, params.Invalid("after", "must be the id of a listing: use next of the page before")
	}
	web.Extend(g, workTime)
	list, err := a.Curation.List(g.Request.Context(), filter, after, limit)
	return web.Reply{JSON: list}, err
}

func listingFilter(values params.Values) (f listing.Filter, err error) {
	if f.Visibility, err = oneOf(values, "visibility", listingfile.Private, listingfile.Published, listingfile.Withdrawn); err != nil {
		return f, err
	}
	if f.Status, err = oneOf(values, "status", api.Verified, api.Unverified, api.Stale, api.NeedsReview); err != nil {
		return f, err
	}
	if f.Category, err = oneOf(values, "category", api.Categories...); err != nil {
		return f, err
	}
	f.Country, f.Text = strings.ToUpper(values["country"]), values["text"]
	if f.Country != "" && (len(f.Country) != 2 || strings.Trim(f.Country, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "") {
		return f, params.Invalid("country", "must be two letters (ISO 3166-1), such as CA")
	}
	if !utf8.ValidString(f.Text) || utf8.RuneCountInString(f.Text) > maxText {
		return f, params.Invalid("text", "must have at most 200 characters")
	}
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
	return "", params.Invalid(name, "must be one of "+strings.Join(names, ", "))
}

// listing returns the detail of one listing for curators.
func (a API) listing(g *gin.Context) (web.Reply, error) {
	if _, err := params.Read(g.Request.URL.RawQuery); err != nil {
		return web.Reply{}, err
	}
	detail, err := a.Curation.Detail(g.Request.Context(), g.Param("id"))
	return web.Reply{JSON: detail}, err
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
