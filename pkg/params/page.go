package params

import (
	"net/url"
	"strconv"
	"strings"

	"opportunity.internal/pkg/api"
)

// The bounds of the specification for page and limit.
const (
	MaxPage      = 1_000_000
	MaxLimit     = 100
	DefaultLimit = 10
)

// Page is one page of a list: its one-based number and how many records it holds at most.
type Page struct{ Number, Limit int }

// Page reads page and limit. A limit above cap, the most that the caller's tier allows, is clamped to it and so visible in the
// pagination of the answer; outside 1..100 it is refused.
func (v Values) Page(cap int) (Page, error) {
	number, err := v.Integer("page", 1, MaxPage, 1)
	if err != nil {
		return Page{}, err
	}
	limit, err := v.Integer("limit", 1, MaxLimit, DefaultLimit)
	if err != nil {
		return Page{}, err
	}
	return Page{Number: number, Limit: min(limit, cap)}, nil
}

// Offset is how many records stand before the page.
func (p Page) Offset() int { return (p.Number - 1) * p.Limit }

// Pagination places the page among total records. The address of the next page is baseURL + path with the filters in the order
// given. Beyond MaxPage there is no next page to ask for, so hasMore ends there too.
func (p Page) Pagination(baseURL, path string, filters [][2]string, total int) api.Pagination {
	out := api.Pagination{Page: p.Number, Limit: p.Limit, Total: total, HasMore: p.Offset()+p.Limit < total && p.Number < MaxPage}
	if out.HasMore {
		next := Page{Number: p.Number + 1, Limit: p.Limit}
		address := baseURL + path + "?" + Encode(next.Append(filters))
		out.Next = &address
	}
	return out
}

// Append adds page and limit to the filters, which stay untouched.
func (p Page) Append(filters [][2]string) [][2]string {
	all := make([][2]string, 0, len(filters)+2)
	all = append(all, filters...)
	return append(all, [2]string{"page", strconv.Itoa(p.Number)}, [2]string{"limit", strconv.Itoa(p.Limit)})
}

// Encode writes parameters as a query string, in their order.
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
