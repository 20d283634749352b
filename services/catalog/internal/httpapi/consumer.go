package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/catalog/internal/query"
	"opportunity.internal/services/catalog/internal/snapshot"
)

const (
	listPath    = "/api/v1/opportunities"
	aliasPath   = "/api/jobs"
	changesPath = "/api/v1/changes"
)

// buffers reuses response bodies. A page has some hundred KiB, too much to allocate for every
// request.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxPooled is the largest capacity of a buffer that is reused.
const maxPooled = 4 << 20

func newBody() (buf *[]byte, done func()) {
	buf, _ = buffers.Get().(*[]byte)
	*buf = (*buf)[:0]
	return buf, func() {
		if cap(*buf) <= maxPooled {
			buffers.Put(buf)
		}
	}
}

func (a API) list(g *gin.Context, caller api.Caller) (web.Reply, error) {
	parse, path := query.Parse, g.FullPath()
	if path == query.SearchPath {
		parse = query.ParseSearch
	}
	q, err := parse(g.Request.URL.RawQuery, caller.PageSize)
	if err != nil {
		return web.Reply{}, err
	}
	view, err := a.Catalog.View()
	if err != nil {
		return web.Reply{}, err
	}
	filters := q.Filter.Params()
	canonical := params.Encode(q.Page.Append(filters))
	reply := a.reply(g, view, path+"?"+canonical+" "+string(caller.Tier), caller.Tier, func(buf []byte) []byte {
		selection := view.Select(q.Filter, caller.Tier)
		buf = selection.Append(append(buf, `{"data":[`...), q.Page)
		return appendJSON(append(buf, `],"pagination":`...),
			q.Page.Pagination(a.PublicURL, path, filters, selection.Total()))
	})
	reply.ETag = etag(a.PublicURL, path, canonical, string(caller.Tier), view.Version())
	if path == aliasPath {
		reply.Header.Set("Link", "<"+a.PublicURL+listPath+"?"+canonical+`>; rel="canonical"`)
	}
	return reply, nil
}

func (a API) detail(g *gin.Context, caller api.Caller) (web.Reply, error) {
	if _, err := params.Read(g.Request.URL.RawQuery); err != nil {
		return web.Reply{}, err
	}
	view, err := a.Catalog.View()
	if err != nil {
		return web.Reply{}, err
	}
	id := g.Param("id")
	record, ok := view.Find(id, caller.Tier)
	if !ok {
		near := ""
		if ids := view.Near(id, caller.Tier); len(ids) > 0 {
			near = " Did you mean " + strings.Join(ids, " or ") + "?"
		}
		return web.Reply{}, problem.New(problem.NotFound, "There is no such record, or it is not part of your plan.%s",
			near)
	}
	reply := a.reply(g, view, id, caller.Tier, func(buf []byte) []byte {
		return record.Append(append(buf, `{"data":`...))
	})
	reply.ETag = etag(a.PublicURL, id, string(caller.Tier), string(record.AppendVersion(nil)))
	return reply, nil
}

// recordChanges serves the changes of all public records. It reads the database, so it is
// unavailable during an outage, and it serves no change that the snapshot lacks.
func (a API) recordChanges(g *gin.Context, caller api.Caller) (web.Reply, error) {
	q, err := query.ParseChanges(g.Request.URL.RawQuery, caller.PageSize)
	if err != nil {
		return web.Reply{}, err
	}
	if !caller.Tier.AllRecords() {
		return web.Reply{}, problem.New(problem.SubscriptionRequired,
			"The %s tier does not include the changes. Get the %s plan at %s/account/plan, or ask the operator if "+
				"this service sells no plans.",
			caller.Tier, api.AllRecordsPlan().Name, a.PublicURL)
	}
	view, err := a.Catalog.View()
	if err != nil {
		return web.Reply{}, err
	}
	page, err := a.Listings.RecordChanges(g.Request.Context(), q, a.Catalog.Sequence())
	if err != nil {
		return web.Reply{}, err
	}
	list := api.ChangeList{
		Data:       page.Changes,
		Pagination: api.CursorPagination{Limit: q.Limit, HasMore: page.HasMore, Cursor: page.End.Cursor()},
		Meta:       api.NewMeta(caller.Tier, view.Now()),
	}
	if page.HasMore {
		next := a.PublicURL + changesPath + "?" + params.Encode(query.Changes{After: list.Pagination.Cursor,
			Limit: q.Limit}.Params())
		list.Pagination.Next = &next
	}
	return web.Reply{ETag: etag(a.PublicURL, changesPath, params.Encode(q.Params()), string(caller.Tier),
		page.Newest.Cursor()), JSON: list}, nil
}

// reply returns a reply whose body is the text and the meta member. key identifies the text among
// those of the view's version.
func (a API) reply(g *gin.Context, view snapshot.View, key string, tier api.Tier, text func([]byte) []byte) web.Reply {
	buf, done := newBody()
	tail := append(appendJSON([]byte(`,"meta":`), api.NewMeta(tier, view.Now())), '}')
	coding := ""
	if acceptsGzip(g.Request.Header["Accept-Encoding"]) {
		coding, *buf = "gzip", a.Compressed.Append(*buf, view.Version(), key, text, tail)
	} else {
		*buf = append(text(*buf), tail...)
	}
	return web.Reply{Header: http.Header{"Vary": {"Accept-Encoding"}}, Body: *buf, Coding: coding, Done: done}
}

func appendJSON(b []byte, v any) []byte {
	text, err := api.Encode(v)
	if err != nil {
		panic(err) // only structs of strings, numbers and times of this century are encoded
	}
	return append(b, text...)
}

// etag returns a validator derived from everything that a response depends on, except its time.
// Replicas with the same data return the same validator.
func etag(parts ...string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q", api.ContractVersion, parts))
	return hex.EncodeToString(sum[:16])
}
