package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/catalog/internal/query"
)

const (
	listPath  = "/api/v1/opportunities"
	aliasPath = "/api/jobs"
)

// buffers reuses response bodies. A page has some hundred KiB, too much to allocate for every request.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxPooled is the largest capacity of a buffer that is reused.
const maxPooled = 4 << 20

// newBody returns an empty buffer and a function that releases it.
func newBody() (buf *[]byte, done func()) {
	buf, _ = buffers.Get().(*[]byte)
	*buf = (*buf)[:0]
	return buf, func() {
		if cap(*buf) <= maxPooled {
			buffers.Put(buf)
		}
	}
}

func (a API) list(g *gin.Context) (web.Reply, error) {
	caller, err := web.Caller(g)
	if err != nil {
		return web.Reply{}, err
	}
	q, err := query.Parse(g.Request.URL.RawQuery, caller.PageSize)
	if err != nil {
		return web.Reply{}, err
	}
	view, err := a.Catalog.View()
	if err != nil {
		return web.Reply{}, err
	}
	path, filters := g.FullPath(), q.Filter.Params()
	canonical := params.Encode(q.Page.Append(filters))
	selection := view.Select(q.Filter, caller.Tier)
	page := q.Page.Pagination(a.PublicURL, path, filters, selection.Total())

	buf, done := newBody()
	b := append(*buf, `{"data":[`...)
	b = selection.Append(b, q.Page)
	b = append(b, `],"pagination":`...)
	b = appendJSON(b, page)
	*buf = appendMeta(b, api.NewMeta(caller.Tier, view.Now()))
	reply := web.Reply{
		ETag: etag(a.PublicURL, path, canonical, string(caller.Tier), view.Version()), Body: *buf, Done: done,
	}
	if path == aliasPath {
		reply.Header = http.Header{"Link": {"<" + a.PublicURL + listPath + "?" + canonical + `>; rel="canonical"`}}
	}
	return reply, nil
}

func (a API) detail(g *gin.Context) (web.Reply, error) {
	caller, err := web.Caller(g)
	if err != nil {
		return web.Reply{}, err
	}
	if err := query.RejectAll(g.Request.URL.RawQuery); err != nil {
		return web.Reply{}, err
	}
	view, err := a.Catalog.View()
	if err != nil {
		return web.Reply{}, err
	}
	id := g.Param("id")
	record, ok := view.Find(id, caller.Tier)
	if !ok {
		return web.Reply{}, problem.New(problem.NotFound, "There is no such record, or it is not part of your plan.")
	}
	buf, done := newBody()
	b := append(*buf, `{"data":`...)
	b = record.Append(b)
	*buf = appendMeta(b, api.NewMeta(caller.Tier, view.Now()))
	return web.Reply{ETag: etag(a.PublicURL, id, string(caller.Tier), record.Version()), Body: *buf, Done: done}, nil
}

func appendMeta(b []byte, meta api.Meta) []byte {
	return append(appendJSON(append(b, `,"meta":`...), meta), '}')
}

// appendJSON appends v as api.Encode encodes it.
func appendJSON(b []byte, v any) []byte {
	text, err := api.Encode(v)
	if err != nil {
		panic(err) // only structs of strings, numbers and times of this century are encoded
	}
	return append(b, text...)
}

// etag returns a validator derived from everything that a response depends on, except its time. Replicas with the same data return the
// same validator.
func etag(parts ...string) string {
	h := sha256.New()
	for _, part := range append(parts, api.ContractVersion) {
		_, _ = io.WriteString(h, strconv.Quote(part))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
