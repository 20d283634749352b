package params

import (
	"net/url"
	"strconv"
	"strings"

	"opportunity.internal/pkg/api"
)

// Limits and default of page and limit.
const (
	MaxPage      = 1_000_000
	MaxLimit     = api.MaxPageSize
	DefaultLimit = 10
)

// Page is a page of a list: its number, from 1, and its maximum number of records.
type Page struct{ Number, Limit int }

// Page returns the parameters page and limit. It reduces limit to maxLimit, the page size of the
// caller's tier. It returns an error if page is not in 1..MaxPage or limit is not in 1..MaxLimit.
func (v Values) Page(maxLimit int) (Page, error) {
	number, err1 := v.Integer("page", 1, MaxPage, 1)
	limit, err2 := v.Limit(maxLimit)
	return Page{Number: number, Limit: limit}, Join(err1, err2)
}

// Limit returns the parameter limit, reduced to maxLimit, the page size of the caller's tier. It
// returns an error if it is not in 1..MaxLimit.
func (v Values) Limit(maxLimit int) (int, error) {
	limit, err := v.Integer("limit", 1, MaxLimit, DefaultLimit)
	return min(limit, maxLimit), err
}

// Offset returns the number of records before the page.
func (p Page) Offset() int { return (p.Number - 1) * p.Limit }

// Pagination returns the pagination of the page among total records. The URL of the next page is
// baseURL + path with the given filters. MaxPage never has a next page.
func (p Page) Pagination(baseURL, path string, filters [][2]string, total int) api.Pagination {
	out := api.Pagination{Page: p.Number, Limit: p.Limit, Total: total, HasMore: p.Offset()+p.Limit < total &&
		p.Number < MaxPage}
	if out.HasMore {
		next := Page{Number: p.Number + 1, Limit: p.Limit}
		address := baseURL + path + "?" + Encode(next.Append(filters))
		out.Next = &address
	}
	return out
}

// Append returns a copy of filters with page and limit appended.
func (p Page) Append(filters [][2]string) [][2]string {
	all := make([][2]string, 0, len(filters)+2)
	all = append(all, filters...)
	return append(all, [2]string{"page", strconv.Itoa(p.Number)}, [2]string{"limit", strconv.Itoa(p.Limit)})
}

// Encode returns the query string of the parameters, in the given order.
func Encode(pairs [][2]string) string {
	var b strings.Builder
	for i, pair := range pairs {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(url.QueryEscape(pair[0]))
		b.WriteByte('=')
		b.WriteString(url.QueryEscape(pair[1]))
	}
	return b.String()
}
