package opportunity

import (
	"context"
	"fmt"
	"iter"
	"net/url"
	"strconv"
	"strings"
)

// MaxPageSize is the default page size of lists. The API lowers it to the maximum of the tier, so a
// list takes as few calls as possible.
const MaxPageSize = 100

const (
	listPath    = "/api/v1/opportunities"
	searchPath  = "/api/v1/search"
	changesPath = "/api/v1/changes"
)

// Page is a page of a list.
type Page[T any] struct {
	Data       []T          `json:"data"`
	Pagination Pagination   `json:"pagination"`
	Meta       Meta         `json:"meta"`
	Response   ResponseInfo `json:"-"`
}

// ChangePage is a page of changes.
type ChangePage struct {
	Data       []RecordChange   `json:"data"`
	Pagination CursorPagination `json:"pagination"`
	Meta       Meta             `json:"meta"`
	Response   ResponseInfo     `json:"-"`
}

// Detail is one record with the time and tier of the response.
type Detail struct {
	Data     Opportunity  `json:"data"`
	Meta     Meta         `json:"meta"`
	Response ResponseInfo `json:"-"`
}

// Opportunities iterates over the records that match f, over all pages. Each id appears once. An
// error ends the iteration.
func (c *Client) Opportunities(ctx context.Context, f Filter) iter.Seq2[Opportunity, error] {
	return items(c.OpportunityPages(ctx, f), data, func(o Opportunity) string { return o.ID })
}

// OpportunityPages iterates over the pages of the records that match f. If records change during
// the iteration, a record can appear on two pages or on none.
func (c *Client) OpportunityPages(ctx context.Context, f Filter) iter.Seq2[*Page[Opportunity], error] {
	return pages[Page[Opportunity]](ctx, c, listPath, f.query(), false)
}

// Search iterates over the records that match f, over all pages. Each id appears once. An error
// ends the iteration.
func (c *Client) Search(ctx context.Context, f SearchFilter) iter.Seq2[Opportunity, error] {
	return items(c.SearchPages(ctx, f), data, func(o Opportunity) string { return o.ID })
}

// SearchPages iterates over the pages of the records that match f, as OpportunityPages does.
func (c *Client) SearchPages(ctx context.Context, f SearchFilter) iter.Seq2[*Page[Opportunity], error] {
	return pages[Page[Opportunity]](ctx, c, searchPath, f.query(), false)
}

// Opportunity returns one record. A record that does not exist, or that the account cannot read, is
// an Error with CodeNotFound.
func (c *Client) Opportunity(ctx context.Context, id string) (*Detail, error) {
	out := new(Detail)
	var err error
	out.Response, err = c.get(ctx, request{path: recordPath(id)}, out)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// History iterates over the verification history of a record, newest first, over all pages. Each
// event appears once.
func (c *Client) History(ctx context.Context, id string, f HistoryFilter) iter.Seq2[VerificationEvent, error] {
	return items(c.HistoryPages(ctx, id, f), data, func(e VerificationEvent) string { return e.ID })
}

// HistoryPages iterates over the pages of a record's verification history, newest first.
func (c *Client) HistoryPages(ctx context.Context, id string, f HistoryFilter) iter.Seq2[*Page[VerificationEvent],
	error] {
	return pages[Page[VerificationEvent]](ctx, c, recordPath(id).EscapedPath()+"/history", f.query(), false)
}

// Changes iterates over the changes of records after a cursor, oldest first, over all pages.
func (c *Client) Changes(ctx context.Context, f ChangeFilter) iter.Seq2[RecordChange, error] {
	return items(c.ChangePages(ctx, f), func(p *ChangePage) []RecordChange { return p.Data },
		func(c RecordChange) string { return c.Cursor })
}

// ChangePages iterates over the pages of the changes of records after a cursor, oldest first.
// Pagination.Cursor of the last page is the cursor to continue with.
func (c *Client) ChangePages(ctx context.Context, f ChangeFilter) iter.Seq2[*ChangePage, error] {
	return pages[ChangePage](ctx, c, changesPath, f.query(), false)
}

func recordPath(id string) *url.URL {
	return &url.URL{Path: listPath + "/" + id, RawPath: listPath + "/" + url.PathEscape(id)}
}

func data[T any](p *Page[T]) []T { return p.Data }

// link returns the response of a page, and whether and where there is a next one.
func (p *Page[T]) link() (*ResponseInfo, bool, *string) {
	return &p.Response, p.Pagination.HasMore, p.Pagination.Next
}

func (p *ChangePage) link() (*ResponseInfo, bool, *string) {
	return &p.Response, p.Pagination.HasMore, p.Pagination.Next
}

// items iterates over the items of pages and skips those whose id appeared before.
func items[P, T any](pages iter.Seq2[*P, error], of func(*P) []T, id func(T) string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		seen := map[string]bool{}
		for page, err := range pages {
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range of(page) {
				if seen[id(item)] {
					continue
				}
				seen[id(item)] = true
				if !yield(item, nil) {
					return
				}
			}
		}
	}
}

// pages iterates over the pages of a list. It follows only the query of pagination.next, so the key
// never leaves the address of the client.
func pages[P any, Link interface {
	*P
	link() (response *ResponseInfo, hasMore bool, next *string)
}](ctx context.Context, c *Client, path string, query url.Values, fresh bool) iter.Seq2[*P, error] {
	if !query.Has("limit") {
		query.Set("limit", strconv.Itoa(MaxPageSize))
	}
	return func(yield func(*P, error) bool) {
		at, err := url.Parse(path + "?" + query.Encode())
		for err == nil {
			page := new(P)
			response, _, _ := Link(page).link()
			*response, err = c.get(ctx, request{path: at, fresh: fresh}, page)
			if err != nil {
				break
			}
			if !yield(page, nil) {
				return
			}
			_, hasMore, next := Link(page).link()
			if !hasMore {
				return
			}
			at, err = following(at, *next)
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// following returns the request for the page after the one at path. Only the query of address
// counts. Its path must be that of the list, behind that of any proxy.
func following(path *url.URL, address string) (*url.URL, error) {
	next, err := url.Parse(address)
	if err != nil || !strings.HasSuffix(next.EscapedPath(), path.EscapedPath()) || next.RawQuery == path.RawQuery {
		return nil, &Error{Code: CodeInvalidResponse,
			Message: fmt.Sprintf("pagination.next does not lead to another page: %q", address)}
	}
	return &url.URL{Path: path.Path, RawPath: path.RawPath, RawQuery: next.RawQuery}, nil
}

// query collects query parameters that are set.
type query url.Values

func (q query) text(name, value string) {
	if value != "" {
		url.Values(q).Set(name, value)
	}
}

func (q query) integer(name string, value int) {
	if value != 0 {
		url.Values(q).Set(name, strconv.Itoa(value))
	}
}

func (q query) tri(name string, value Tri) {
	if value.Known() {
		url.Values(q).Set(name, value.String())
	}
}
