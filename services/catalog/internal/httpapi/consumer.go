package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/catalog/internal/compress"
	"opportunity.internal/services/catalog/internal/query"
	"opportunity.internal/services/catalog/internal/snapshot"
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

	records, coding := selection.Records(q.Page), negotiate(g)
	runs := []snapshot.Records{records}
	switch {
	case records.Len() == 0:
		coding = compress.Identity
	case coding == compress.Gzip:
		runs = records.Runs()
	}
	parts, before := make([]compress.Part, len(runs)), firstRun
	for i, run := range runs {
		parts[i], before = part{before, run}, laterRun
	}
	tail := appendMeta(appendJSON([]byte(`],"pagination":`), page), api.NewMeta(caller.Tier, view.Now()))
	reply := a.reply(coding, parts, tail)
	reply.ETag = etag(a.PublicURL, path, canonical, string(caller.Tier), view.Version())
	if path == aliasPath {
		reply.Header.Set("Link", "<"+a.PublicURL+listPath+"?"+canonical+`>; rel="canonical"`)
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
	reply := a.reply(negotiate(g), []compress.Part{part{`{"data":`, record}}, appendMeta(nil, api.NewMeta(caller.Tier, view.Now())))
	reply.ETag = etag(a.PublicURL, id, string(caller.Tier), string(record.AppendVersion(nil)))
	return reply, nil
}

// The text before the first run of a list, and before each later one.
const (
	firstRun = `{"data":[`
	laterRun = ","
)

// part is a part of a body, after text that depends on its place only.
type part struct {
	before string
	compress.Part
}

func (p part) Append(buf []byte) []byte { return p.Part.Append(append(buf, p.before...)) }

func (p part) AppendVersion(buf []byte) []byte {
	return p.Part.AppendVersion(append(append(buf, p.before...), '\n'))
}

func negotiate(g *gin.Context) compress.Coding {
	return compress.Negotiate(g.Request.Header["Accept-Encoding"])
}

// reply returns a reply whose body has the parts and the tail in the coding.
func (a API) reply(coding compress.Coding, parts []compress.Part, tail []byte) web.Reply {
	buf, done := newBody()
	if coding == compress.Identity {
		for _, p := range parts {
			*buf = p.Append(*buf)
		}
		*buf = append(*buf, tail...)
	} else {
		*buf = a.Compressed.Append(*buf, coding, parts, tail)
	}
	return web.Reply{Header: http.Header{"Vary": {"Accept-Encoding"}}, Body: *buf, Coding: string(coding), Done: done}
}

// appendMeta appends the last member of a body and its end. It encodes meta as appendJSON does, in a fifth of the time.
func appendMeta(b []byte, meta api.Meta) []byte {
	b = append(append(append(b, `,"meta":{"version":"`...), meta.Version...), `","generatedAt":"`...)
	b = append(meta.GeneratedAt.AppendFormat(b, time.RFC3339Nano), `","freshnessDays":`...)
	b = append(append(strconv.AppendInt(b, int64(meta.FreshnessDays), 10), `,"kind":"`...), meta.Kind...)
	b = append(b, `","tier":`...)
	return append(appendJSON(b, meta.Tier), `}}`...)
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
	var space [512]byte
	text := append(space[:0], api.ContractVersion...)
	for _, part := range parts { // each after its length, so that no two lists of parts give the same text
		text = append(append(strconv.AppendInt(append(text, ' '), int64(len(part)), 10), ':'), part...)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}
