package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/routetest"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/catalog/internal/httpapi"
	"opportunity.internal/services/catalog/internal/listing"
)

// emptyCatalog is a Curation without listings.
type emptyCatalog struct{ httpapi.Curation }

func (emptyCatalog) Import(_ context.Context, _ string, lines func(func(listingfile.Line) error) error, _ bool) (api.ImportReport, error) {
	return api.ImportReport{}, lines(func(listingfile.Line) error { return nil })
}
func (emptyCatalog) Publish(context.Context, string, []string, bool) (api.ImportReport, error) {
	return api.ImportReport{}, nil
}
func (emptyCatalog) Withdraw(context.Context, string, []string, string) (api.ImportReport, error) {
	return api.ImportReport{}, nil
}

// emptyDesk returns its parameters in place of a list.
type emptyDesk struct{ httpapi.Desk }

func (emptyDesk) List(_ context.Context, f listing.Filter, after string, limit int) (api.ListingList, error) {
	return api.ListingList{Next: fmt.Sprintf("%+v %q %d", f, after, limit)}, nil
}
func (emptyCatalog) Export(context.Context) iter.Seq2[listing.Entry, error] {
	return func(func(listing.Entry, error) bool) {}
}

// deadlines records the deadlines that a handler sets on its connection.
type deadlines struct {
	*httptest.ResponseRecorder
	read, write time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error  { d.read = t; return nil }
func (d *deadlines) SetWriteDeadline(t time.Time) error { d.write = t; return nil }

func TestOperatorRequestsExtendDeadlines(t *testing.T) {
	engine := web.New(problem.Writer{})
	httpapi.API{Curation: emptyCatalog{}, Desk: emptyDesk{}, Now: time.Now}.Routes(engine, problem.Writer{}, http.NotFoundHandler())
	for _, c := range []struct{ method, path, body string }{
		{http.MethodPost, "/import", ""}, {http.MethodGet, "/export", ""}, {http.MethodGet, "", ""},
		{http.MethodPost, "/publish", `{"ids":["a"]}`}, {http.MethodPost, "/withdraw", `{"ids":["a"]}`},
	} {
		r := httptest.NewRequest(c.method, "/operator/v1/listings"+c.path, strings.NewReader(c.body))
		r.Header.Set(api.ActorHeader, "ann")
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		engine.ServeHTTP(w, r)
		require.Equal(t, http.StatusOK, w.Code, "%s: %s", c.path, w.Body)
		require.NotZero(t, w.read, c.path)
		require.NotZero(t, w.write, c.path)
	}
}

func TestRoutesHaveRules(t *testing.T) {
	engine := web.New(problem.Writer{})
	httpapi.API{}.Routes(engine, problem.Writer{}, http.NotFoundHandler())
	routetest.RequireRules(t, peer.Catalog, engine.Routes())
}

func TestListRejectsInvalidParameters(t *testing.T) {
	engine := web.New(problem.Writer{})
	httpapi.API{Curation: emptyCatalog{}, Desk: emptyDesk{}, Now: time.Now}.Routes(engine, problem.Writer{}, http.NotFoundHandler())
	get := func(query string) (int, string) {
		r := httptest.NewRequest(http.MethodGet, "/operator/v1/listings"+query, nil)
		w := httptest.NewRecorder()
		engine.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	for query, want := range map[string]string{
		"": `{Visibility: Status: Category: Country: Text: Host: DueBefore:0001-01-01 00:00:00 +0000 UTC Holder:} "" 100`,
		"?visibility=private&status=needs-review&category=sell&country=ca&text=M%C3%A1ple+%25&host=A.example&dueBefore=2026-11-20T00:00:00Z" +
			"&holder=ann&after=a-1&limit=1000": `{Visibility:private Status:needs-review Category:sell Country:CA Text:Máple % Host:a.example ` +
			`DueBefore:2026-11-20 00:00:00 +0000 UTC Holder:ann} "a-1" 1000`,
	} {
		status, body := get(query)
		require.Equal(t, http.StatusOK, status, body)
		var list api.ListingList
		require.NoError(t, json.Unmarshal([]byte(body), &list))
		require.Equal(t, want, list.Next)
	}
	for query, message := range map[string]string{
		"?visibility=public": "Parameter visibility must be one of private, published, withdrawn.",
		"?status=fresh":      "Parameter status must be one of verified, unverified, stale, needs-review.",
		"?category=x":        "Parameter category must be one of online, sell, local, host.",
		"?country=C1":        "Parameter country must be two letters",
		"?text=%ff":          "Parameter text must have at most 200 characters.",
		"?after=A":           "Parameter after must be the id of a listing",
		"?limit=1001":        "Parameter limit ",
		"?limit=1&limit=1":   "Parameter limit appears more than once",
		"?text=":             "Parameter text is empty",
		"?page=2":            "Parameter page is unknown; this operation takes visibility, status, category, country, text, host, dueBefore, holder, after, limit.",
	} {
		status, body := get(query)
		require.Equal(t, http.StatusBadRequest, status, query)
		require.Contains(t, body, message, query)
	}
}
