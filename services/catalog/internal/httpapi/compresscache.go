package httpapi

import (
	"context"
	"sync"

	"github.com/maypok86/otter/v2"
)

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

// Append appends a compressed body to buf: a text, and a tail of at most MaxTail bytes that is not
// compressed. version and key identify the text; text appends it to a buffer, and is called only if
// the cache does not have it. coding is Gzip or Zstd.
func (c *Cache) Append(buf []byte, coding Coding, version, key string, text func([]byte) []byte, tail []byte) []byte {
	c.renew(version)
	p, err := c.pages.Get(context.Background(), string(coding)+" "+version+" "+key, otter.LoaderFunc[string, *page](
		func(context.Context, string) (*page, error) { return compress(coding, text), nil }))
	if err != nil {
		panic(err) // the loader returns none
	}
	return p.append(buf, coding, tail)
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
