package params_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
)

func TestRead(t *testing.T) {
	for _, c := range []struct {
		raw     string
		want    params.Values
		code    problem.Code
		message string // part of the message
	}{
		{raw: "", want: params.Values{}},
		{raw: "&&", want: params.Values{}},
		{raw: "remote=true&page=2", want: params.Values{"remote": "true", "page": "2"}},
		{raw: "remote=t%72ue", want: params.Values{"remote": "true"}},
		{raw: "rem%6Fte=true", want: params.Values{"remote": "true"}},
		{raw: "remote=true;page=2", want: params.Values{"remote": "true;page=2"}},
		{raw: "remote=", code: problem.InvalidParameter, message: "remote is empty"},
		{raw: "remote", code: problem.InvalidParameter, message: "remote is empty"},
		{raw: "remote=%zz", code: problem.InvalidParameter, message: "remote"},
		{raw: "remote=true&remote=true", code: problem.DuplicateParameter, message: "remote appears more than once"},
		{raw: "Remote=true", code: problem.UnknownParameter,
			message: "Parameter Remote is unknown; did you mean remote?"},
		{raw: "remotely=1", code: problem.UnknownParameter, message: "did you mean remote?"},
		{raw: "query=1", code: problem.UnknownParameter,
			message: "Parameter query is unknown; this operation takes remote, page."},
		{raw: "remote=&x=1&pages=2", code: problem.InvalidParameter,
			message: "Parameter remote is empty; leave it out instead. Parameter x is unknown. Parameter pages is unknown; " +
				"did you mean page?"},
		{raw: "a=1&b=1&c=1&d=1&e=1&f=1&g=1", code: problem.UnknownParameter,
			message: "Parameter e is unknown. There are more problems."},
		{raw: "%zz=1", code: problem.UnknownParameter},
		{raw: "=1", code: problem.UnknownParameter},
	} {
		t.Run(c.raw, func(t *testing.T) {
			got, err := params.Read(c.raw, "remote", "page")
			if c.code == "" {
				require.NoError(t, err)
				require.Equal(t, c.want, got)
				return
			}
			require.Equal(t, c.code, problem.Of(err).Code)
			require.Contains(t, problem.Of(err).Text(), c.message)
		})
	}
}

func TestReadDoesNotQuoteKeyInQueryString(t *testing.T) {
	const secret = "oda_live_0123456789abcdefghijABCDEFGHIJ0123456789abcd_0123ab"
	for _, raw := range []string{"api_key=" + secret, secret + "=1", secret, "x%00" + secret + "=1"} {
		_, err := params.Read(raw, "page")
		require.Equal(t, problem.UnknownParameter, problem.Of(err).Code)
		require.NotContains(t, err.Error(), secret[9:20])
	}
}

func TestBool(t *testing.T) {
	for value, ok := range map[string]bool{"true": true, "false": true, "True": false, "1": false, "yes": false,
		" true": false} {
		b, err := params.Values{"remote": value}.Bool("remote")
		require.Equal(t, ok, err == nil, value)
		if ok {
			require.Equal(t, value == "true", *b)
		}
	}
	b, err := params.Values{}.Bool("remote")
	require.NoError(t, err)
	require.Nil(t, b)
}

func TestPage(t *testing.T) {
	for _, c := range []struct {
		page, limit string
		maxLimit    int
		want        params.Page
		param       string // the parameter at fault
	}{
		{maxLimit: 50, want: params.Page{Number: 1, Limit: 10}},
		{page: "3", limit: "50", maxLimit: 50, want: params.Page{Number: 3, Limit: 50}},
		{limit: "51", maxLimit: 50, want: params.Page{Number: 1, Limit: 50}},
		{limit: "100", maxLimit: 10, want: params.Page{Number: 1, Limit: 10}},
		{page: "1000000", limit: "100", maxLimit: 100, want: params.Page{Number: 1000000, Limit: 100}},
		{page: "0", maxLimit: 10, param: "page"}, {page: "1000001", maxLimit: 10, param: "page"},
		{page: "-1", maxLimit: 10, param: "page"},
		{page: "1.0", maxLimit: 10, param: "page"}, {page: "+1", maxLimit: 10, param: "page"},
		{page: "01", maxLimit: 10, param: "page"},
		{limit: "0", maxLimit: 10, param: "limit"}, {limit: "101", maxLimit: 10, param: "limit"},
		{limit: "x", maxLimit: 10, param: "limit"},
		{limit: "99999999999999999999", maxLimit: 10, param: "limit"},
	} {
		v := params.Values{}
		if c.page != "" {
			v["page"] = c.page
		}
		if c.limit != "" {
			v["limit"] = c.limit
		}
		got, err := v.Page(c.maxLimit)
		if c.param != "" {
			require.Equal(t, problem.InvalidParameter, problem.Of(err).Code)
			require.Contains(t, problem.Of(err).Text(), "Parameter "+c.param+" must be an integer from 1 to")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
}

func TestPagination(t *testing.T) {
	filters := [][2]string{{"checked_after", "2026-11-01T00:00:00+02:00"}}
	p := params.Page{Number: 2, Limit: 10}.Pagination("https://api.example", "/api/jobs", filters, 21)
	require.True(t, p.HasMore)
	require.Equal(t, "https://api.example/api/jobs?checked_after=2026-11-01T00%3A00%3A00%2B02%3A00&page=3&limit=10",
		*p.Next)

	for _, last := range []params.Page{{Number: 3, Limit: 10}, {Number: 4, Limit: 10},
		{Number: params.MaxPage, Limit: 1}} {
		p := last.Pagination("https://api.example", "/api/jobs", filters, 21)
		require.False(t, p.HasMore)
		require.Nil(t, p.Next)
	}
	p = params.Page{Number: params.MaxPage, Limit: 1}.Pagination("", "/", nil, params.MaxPage+5)
	require.False(t, p.HasMore, "MaxPage has no next page")
}

// Read either accepts a whole query string or rejects it with a specific code. Accepted values
// survive encoding and parsing.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{"", "remote=true", "remote=true&page=2", "a=b;c=d", "remote=%", "%00=%00",
		"page=1&page=1", "&=&"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		values, err := params.Read(raw, "remote", "page")
		if err != nil {
			if e := new(problem.Error); !errors.As(err, &e) || e.Code.Status() != 400 {
				t.Fatalf("rejected with %v", err)
			}
			return
		}
		var pairs [][2]string
		for name, value := range values {
			if value == "" || (name != "remote" && name != "page") {
				t.Fatalf("accepted %q=%q", name, value)
			}
			pairs = append(pairs, [2]string{name, value})
		}
		again, err := params.Read(params.Encode(pairs), "remote", "page")
		require.NoError(t, err)
		require.Equal(t, values, again)
		if !strings.ContainsAny(raw, ";") {
			if std, err := url.ParseQuery(raw); err == nil {
				require.Equal(t, std.Get("remote"), values["remote"])
			}
		}
	})
}
