package httpapi

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/flate"
	"github.com/maypok86/otter/v2"
)

// A response body is a text, which is the same until the data changes, and a short tail without
// compression, which has the time of the response. A gzip body is one member: the deflated text
// ends at a byte boundary, and the tail is the final stored block.

// acceptsGzip reports whether the values of Accept-Encoding prefer gzip to no compression (RFC
// 9110, section 12.5.3).
func acceptsGzip(accept []string) bool {
	var gzip, identity float64
	for _, values := range accept {
		for value := range strings.SplitSeq(values, ",") {
			name, parameters, _ := strings.Cut(value, ";")
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "gzip":
				gzip = quality(parameters)
			case "identity":
				identity = quality(parameters)
			}
		}
	}
	return gzip > 0 && gzip >= identity
}

// quality returns the weight of a parameter such as "q=0.5", and 0 if it is malformed.
func quality(parameters string) float64 {
	name, value, ok := strings.Cut(strings.TrimSpace(parameters), "=")
	if !ok {
		return 1
	}
	q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil || !strings.EqualFold(strings.TrimSpace(name), "q") || math.IsNaN(q) || q < 0 || q > 1 {
		return 0
	}
	return q
}

// MaxTail is the maximum length of a tail: that of a stored deflate block.
const MaxTail = math.MaxUint16

// The start of every gzip body (RFC 1952: deflate, no name, no time), and the flag of a final
// deflate block that is stored.
const (
	gzipHeader  = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
	storedFinal = 1
)

// page is the compressed start of a body, without its tail.
type page struct {
	body      []byte
	sum, size uint32 // CRC-32 and length of the text
}

func (p *page) append(buf, tail []byte) []byte {
	buf = append(buf, p.body...)
	n := uint16(len(tail)) //nolint:gosec // MaxTail
	buf = binary.LittleEndian.AppendUint16(append(buf, storedFinal), n)
	buf = append(binary.LittleEndian.AppendUint16(buf, ^n), tail...)
	buf = binary.LittleEndian.AppendUint32(buf, crc32.Update(p.sum, crc32.IEEETable, tail))
	return binary.LittleEndian.AppendUint32(buf, p.size+uint32(n))
}

const gzipLevel = 3 // fast, because the first request for a page waits for it

// encoder compresses one text at a time.
type encoder struct {
	to   *flate.Writer
	text []byte
	out  bytes.Buffer
}

// Idle encoders, because each needs up to a MiB of memory.
var encoders = sync.Pool{New: func() any { return &encoder{to: must(flate.NewWriter(nil, gzipLevel))} }}

func compress(text func([]byte) []byte) *page {
	e := encoders.Get().(*encoder)
	defer encoders.Put(e)
	e.out.Reset()
	e.out.WriteString(gzipHeader)
	e.to.Reset(&e.out)
	e.text = text(e.text[:0])
	must(e.to.Write(e.text))
	must(0, e.to.Flush())       // ends a block at a byte boundary
	size := uint32(len(e.text)) //nolint:gosec // gzip stores the length modulo 2^32
	return &page{bytes.Clone(e.out.Bytes()), crc32.ChecksumIEEE(e.text), size}
}

// must returns v. The only errors of the encoder are invalid settings, and those of the writer
// behind it, which is memory.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// MaxBytes is the memory for compressed pages, enough for a list of 100,000 records of 2.7 KB in
// pages of 100.
const MaxBytes = 64 << 20

// overhead is the memory for each page beyond its compressed bytes.
const overhead = 512

// Cache holds compressed pages of the newest version of the data, up to a number of bytes. It
// prefers those that are used often. It is safe for concurrent use, and compresses a page once for
// concurrent requests.
type Cache struct {
	pages *otter.Cache[string, *page]

	mu      sync.Mutex
	version string // of all pages
}

// NewCache returns a cache of up to maxBytes.
func NewCache(maxBytes uint64) *Cache {
	return &Cache{pages: otter.Must(&otter.Options[string, *page]{
		MaximumWeight: maxBytes,
		Weigher: func(_ string, p *page) uint32 {
			return uint32(len(p.body)) + overhead //nolint:gosec // far below 4 GiB
		},
	})}
}

// Append appends a gzip body to buf: a text, and a tail of at most MaxTail bytes that is not
// compressed. version and key identify the text; text appends it to a buffer, and is called only if
// the cache does not have it.
func (c *Cache) Append(buf []byte, version, key string, text func([]byte) []byte, tail []byte) []byte {
	c.renew(version)
	p, err := c.pages.Get(context.Background(), version+" "+key, otter.LoaderFunc[string, *page](
		func(context.Context, string) (*page, error) { return compress(text), nil }))
	if err != nil {
		panic(err) // the loader returns none
	}
	return p.append(buf, tail)
}

// renew drops the pages of older versions: they are never requested again.
func (c *Cache) renew(version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version != version {
		c.version = version
		c.pages.InvalidateAll()
	}
}
