package query_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/catalog/internal/listing"
	"opportunity.internal/services/catalog/internal/query"
)

func TestParse(t *testing.T) {
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	first := params.Page{Number: 1, Limit: 10}
	for raw, want := range map[string]query.Query{
		"":                                   {Page: first},
		"&":                                  {Page: first},
		"country=ca":                         {Filter: query.Filter{Country: "CA"}, Page: first},
		"country=zZ":                         {Filter: query.Filter{Country: "ZZ"}, Page: first},
		"country=CA&province=on":             {Filter: query.Filter{Country: "CA", Province: "CA-ON"}, Page: first},
		"province=ca-Yt&country=cA":          {Filter: query.Filter{Country: "CA", Province: "CA-YT"}, Page: first},
		"verified=false":                     {Filter: query.Filter{Verified: new(false)}, Page: first},
		"category=host":                      {Filter: query.Filter{Category: api.Host}, Page: first},
		"checked_after=2026-11-20T09:00:00Z": {Filter: query.Filter{CheckedAfter: &at}, Page: first},
		"checked_after=2026-11-20T10%3A00%3A00%2B01:00": {Filter: query.Filter{CheckedAfter: &at}, Page: first},
		"checked_after=2026-11-20": {Filter: query.Filter{CheckedAfter: new(at.Truncate(24 * time.Hour))},
			Page: first},
		"checked_after=20261120T0900%2B00": {Filter: query.Filter{CheckedAfter: &at}, Page: first},
		"checked_after=0000-01-01": {Filter: query.Filter{CheckedAfter: new(time.Date(0, 1, 1, 0,
			0, 0, 0, time.UTC))}, Page: first},
		"checked_after=9999-12-31": {Filter: query.Filter{CheckedAfter: new(time.Date(9999, 12, 31,
			0, 0, 0, 0, time.UTC))}, Page: first},
		"page=1000000&limit=100": {Page: params.Page{Number: 1_000_000, Limit: 50}},
		"limit=49":               {Page: params.Page{Number: 1, Limit: 49}},
	} {
		got, err := query.Parse(raw, 50)
		require.NoError(t, err, raw)
		require.Empty(t, cmp.Diff(want, got), raw)
	}
	for i, b := range api.BoolFacts {
		for _, value := range []bool{true, false} {
			want := query.Query{Page: first}
			want.Filter.Facts[i] = &value
			got, err := query.Parse(fmt.Sprintf("%s=%t", b.Param, value), 50)
			require.NoError(t, err, b.Param)
			require.Empty(t, cmp.Diff(want, got), b.Param)
		}
	}
}

// TestParamsAreInOrder checks the canonical form: it is part of entity tags and of the URLs of
// pages, which must not depend on the release.
func TestParamsAreInOrder(t *testing.T) {
	const canonical = "country=CA&province=CA-ON&remote=true&verified=false&degree_required=false" +
		"&experience_required=true&flexible=true" +
		"&category=host&checked_after=2026-11-20T09%3A00%3A00Z"
	const search = "&q=%C3%89t%C3%A9+sub&application_status=open&language=Fran%C3%A7ais&pay_unit=audio-minute" +
		"&subcategory=EV+charging"
	for raw, parse := range map[string]func(string, int) (query.Query, error){
		canonical + "&page=2&limit=10":          query.Parse,
		canonical + search + "&page=2&limit=10": query.ParseSearch,
	} {
		q, err := parse(raw, 50)
		require.NoError(t, err)
		require.Equal(t, raw, params.Encode(q.Page.Append(q.Filter.Params())))
	}
}

func TestParseRejects(t *testing.T) {
	for _, c := range []struct {
		raw  string
		code problem.Code
		name string // part of the message
	}{
		{"key=oda_live_x", problem.UnknownParameter, "key"},
		{"Country=CA", problem.UnknownParameter, "Country"},
		{"remote=true;verified=true", problem.InvalidParameter, "remote"},
		{"country=CA&country=CA", problem.DuplicateParameter, "country"},
		{"country=", problem.InvalidParameter, "country"},
		{"country=CAN", problem.InvalidParameter, "country"},
		{"country=C1", problem.InvalidParameter, "country"},
		{"country=%C3%A9", problem.InvalidParameter, "country"}, // two bytes, one letter
		{"province=ON", problem.InvalidParameter, "province"},
		{"province=ON&country=US", problem.InvalidParameter, "province"},
		{"province=XX&country=CA", problem.InvalidParameter, "province"},
		{"province=US-ON&country=CA", problem.InvalidParameter, "province"},
		{"province=CA%20ON&country=CA", problem.InvalidParameter, "province"},
		{"remote=TRUE", problem.InvalidParameter, "remote"},
		{"flexible=1", problem.InvalidParameter, "flexible"},
		{"verified=null", problem.InvalidParameter, "verified"},
		{"category=Online", problem.InvalidParameter, "category"},
		{"checked_after=2026-11-31", problem.InvalidParameter, "checked_after"},
		{"checked_after=2026-11-20T09:00:00", problem.InvalidParameter, "checked_after"},
		{"checked_after=2026-11-20T9:00:00Z", problem.InvalidParameter, "checked_after"},
		{"checked_after=2026-11-20T09:00:00+01:00", problem.InvalidParameter, "%2B"}, // an unescaped plus is a space
		{"checked_after=0000-01-01T00:00:00%2B01:00", problem.InvalidParameter, "checked_after"},
		{"checked_after=9999-12-31T23:00:00-01:00", problem.InvalidParameter, "checked_after"},
		{"limit=101", problem.InvalidParameter, "limit"},
		{"limit=x&remote=x&country=x", problem.InvalidParameter, "country"}, // the first in the order of names
		{"remote=%zz", problem.InvalidParameter, "remote"},
	} {
		_, err := query.Parse(c.raw, 100)
		e := problem.Of(err)
		require.Equal(t, c.code, e.Code, c.raw)
		require.Contains(t, e.Text(), c.name, c.raw)
	}
}

func TestParseSearchRejects(t *testing.T) {
	for raw, want := range map[string]string{
		"q=":                                   "Parameter q is empty",
		"q=%20%E2%80%94":                       "Parameter q must have a letter or a digit.",
		"q=%CC%81":                             "Parameter q must have a letter or a digit.",
		"q=%ff":                                "Parameter q must be UTF-8",
		"q=" + strings.Repeat("é", 101):        "Parameter q must have at most 100 characters.",
		"language=" + strings.Repeat("a", 101): "Parameter language must have at most 100 characters.",
		"subcategory=" + strings.Repeat("a", 201): "Parameter subcategory must have at most 200 characters.",
		"language=-":              "Parameter language must have a letter or a digit.",
		"application_status=Open": "Parameter application_status must be one of open, waitlist, closed, unknown.",
		"pay_unit=audio_minute":   "Parameter pay_unit must be one of hour, year, task, audio-minute.",
		"Q=a":                     "Parameter Q is unknown",
		"sub_category=a":          "did you mean subcategory?",
		"q=a&q=a":                 "Parameter q appears more than once",
		"remote=1&q=-&limit=0": "Parameter remote must be true or false. Parameter q must have a letter or a digit. " +
			"Parameter limit",
	} {
		_, err := query.ParseSearch(raw, 100)
		require.Contains(t, problem.Of(err).Text(), want, raw)
	}
	for _, raw := range []string{"q=" + strings.Repeat("é", 100), "q=1", "q=%00a"} {
		_, err := query.ParseSearch(raw, 100)
		require.NoError(t, err, raw)
	}
}

func TestListNamesTheSearch(t *testing.T) {
	for _, raw := range []string{"q=a", "q=", "q", "q=a&q=a", "application_status=open", "language=en", "pay_unit=hour",
		"subcategory=a", "remote=true&q=%zz"} {
		_, err := query.Parse(raw, 50)
		require.Equal(t, problem.UnknownParameter, problem.Of(err).Code, raw)
		require.Contains(t, problem.Of(err).Text(), "is unknown here; GET /api/v1/search takes it.", raw)
	}
	_, err := query.Parse("search=a", 50)
	require.NotContains(t, problem.Of(err).Text(), "subcategory")
}

func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"Œuvre d'ÉTÉ": "oeuvre d ete", "Straße STRASSE ẞ": "strasse strasse ss", "e\u0301": "e",
		"ﬁ Ⅷ １２ №": "fi viii 12 no", "ΣΊΣΥΦΟΣ": "σισυφοσ",
		"İstanbul ISPARTA ısı": "istanbul isparta isi", "Łódź Đà Þór Ħ": "lodz da thor h",
		"trans\u00adlation": "translation", " - a--b_c ": "a b c", "👩\u200d💻": "", "": "",
	} {
		require.Equal(t, want, query.Words(text), text)
		require.Equal(t, want, query.Words(want), text)
	}
}

func TestAllProblemsAreNamed(t *testing.T) {
	_, err := query.Parse("country=Canada&province=XX&verifed=true&remote=1&limit=0", 50)
	require.Equal(t, problem.UnknownParameter, problem.Of(err).Code)
	require.Equal(t, "Parameter verifed is unknown; did you mean verified? Parameter country must be a country code "+
		"of two letters, such as CA. "+
		"Parameter remote must be true or false. Parameter limit must be an integer from 1 to 100.",
		problem.Of(err).Text())
}

// FuzzParse checks that Parse returns either a 400, or a query whose canonical form parses to the
// same query and canonical form.
func FuzzParse(f *testing.F) {
	f.Add("country=CA&province=CA-ON&remote=true&verified=false&degree_required=true&category=online" +
		"&checked_after=2026-11-20&page=2&limit=7")
	f.Add("checked_after=2026-11-20T23:59:59.999999999%2B14:00&flexible=false&experience_required=false")
	f.Add("q=%EF%B7%BA+%C3%89&application_status=open&language=en&pay_unit=hour&subcategory=a+b&page=3")
	f.Add("a=1;b=2&&%=&=&country=%E2%84%AA%41")
	f.Fuzz(func(t *testing.T, raw string) {
		q, err := query.ParseSearch(raw, 50)
		if err != nil {
			e := problem.Of(err)
			require.Equal(t, 400, e.Code.Status(), e.Message)
			require.Less(t, len(e.Message), 1500)
			return
		}
		require.LessOrEqual(t, q.Page.Limit, 50)
		canonical := params.Encode(q.Page.Append(q.Filter.Params()))
		again, err := query.ParseSearch(canonical, 50)
		require.NoError(t, err, canonical)
		require.Empty(t, cmp.Diff(q, again))
		require.Equal(t, canonical, params.Encode(again.Page.Append(again.Filter.Params())))
		require.False(t, strings.ContainsAny(canonical, " ;\n"))
	})
}

func TestParseChanges(t *testing.T) {
	cursor := listing.Position{Sequence: 7, ID: "ABC"}.Cursor()
	for raw, want := range map[string]query.Changes{
		"":                        {Limit: 10},
		"after=now&limit=100":     {After: query.Now, Limit: 50},
		"limit=7&after=" + cursor: {After: cursor, Position: listing.Position{Sequence: 7, ID: "ABC"}, Limit: 7},
		"after=" + zero.Cursor():  {After: zero.Cursor(), Limit: 10},
	} {
		got, err := query.ParseChanges(raw, 50)
		require.NoError(t, err, raw)
		require.Equal(t, want, got, raw)
	}
	for raw, code := range map[string]problem.Code{
		"page=1": problem.UnknownParameter, "after=now&after=now": problem.DuplicateParameter,
		"after=":  problem.InvalidParameter,
		"limit=0": problem.InvalidParameter, "after=NOW": problem.InvalidParameter, "after=7": problem.InvalidParameter,
		"after=" + cursor + "%3D":                                     problem.InvalidParameter,
		"after=" + listing.Position{Sequence: 7}.Cursor():             problem.InvalidParameter,
		"after=" + listing.Position{ID: "ABC"}.Cursor():               problem.InvalidParameter,
		"after=" + listing.Position{Sequence: -7, ID: "ABC"}.Cursor(): problem.InvalidParameter,
		"after=" + strings.Repeat("a", 4000):                          problem.InvalidParameter,
	} {
		_, err := query.ParseChanges(raw, 50)
		require.Equal(t, code, problem.Of(err).Code, raw)
	}
}

var zero listing.Position

// FuzzParseChanges checks that ParseChanges returns either a 400, or a query whose canonical form
// parses to the same query.
func FuzzParseChanges(f *testing.F) {
	f.Add("after=" + listing.Position{Sequence: 7, ID: "ABC"}.Cursor() + "&limit=7")
	f.Add("after=now")
	f.Add("after=MC4")
	f.Fuzz(func(t *testing.T, raw string) {
		q, err := query.ParseChanges(raw, 50)
		if err != nil {
			require.Equal(t, 400, problem.Of(err).Code.Status())
			return
		}
		again, err := query.ParseChanges(params.Encode(q.Params()), 50)
		require.NoError(t, err)
		require.Equal(t, q, again)
	})
}
