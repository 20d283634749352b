package compress

import (
	"container/list"
	"sync"

	"golang.org/x/sync/singleflight"
)

// MaxBytes is the memory for compressed parts, enough for all lists of 100,000 records of 2.7 KB.
const MaxBytes = 64 << 20

// overhead is the memory for each part beyond its compressed bytes.
const overhead = 512

// Cache holds compressed parts, up to a number of bytes. It drops those that were not used for the longest time. It is safe for concurrent
// use, and compresses a part once for concurrent requests.
type Cache struct {
	max    int
	builds singleflight.Group

	mu    sync.Mutex
	size  int
	parts map[key]*list.Element
	used  *list.List // of entry, latest first
}

type entry struct {
	of   key
	part *compressed
	pass int // the latest that prepared it; 0: none
}

// NewCache returns a cache of up to maxBytes.
func NewCache(maxBytes int) *Cache {
	return &Cache{max: maxBytes, parts: map[key]*list.Element{}, used: list.New()}
}

// get returns the part with the key, and builds it if the cache does not have it.
func (c *Cache) get(of key, build func() *compressed) *compressed {
	if p := c.find(of); p != nil {
		return p
	}
	built, _, _ := c.builds.Do(string(of[:]), func() (any, error) {
		p := c.find(of) // another request may have built it since
		if p == nil {
			p = build()
			c.add(&entry{of: of, part: p})
		}
		return p, nil
	})
	return built.(*compressed)
}

func (c *Cache) find(of key) *compressed {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.parts[of]
	if at == nil {
		return nil
	}
	c.used.MoveToFront(at)
	return at.Value.(*entry).part
}

func (c *Cache) add(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.parts[e.of] = c.used.PushFront(e)
	c.size += e.bytes()
	for c.size > c.max {
		c.remove(c.used.Back())
	}
}

func (c *Cache) remove(at *list.Element) {
	e := c.used.Remove(at).(*entry)
	delete(c.parts, e.of)
	c.size -= e.bytes()
}

// Prepare compresses a part with gzip unless the cache has it, and reports whether it did. It takes three times the CPU time that a request
// would, for a smaller part. size is the memory for the compressed part in bytes. pass is a number above 0 that grows with each call of
// EndPass.
func (c *Cache) Prepare(pass int, p Part) (size int, built bool) {
	of := keyOf(Gzip, p)
	e := entry{part: c.get(of, func() *compressed { built = true; return gzipAhead.compress(p) })}
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.parts[of]; at != nil {
		at.Value.(*entry).pass = pass
	}
	return e.bytes(), built
}

// EndPass drops the parts that an earlier pass prepared and this one did not: they are no longer part of the list.
func (c *Cache) EndPass(pass int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at := c.used.Front(); at != nil; {
		next := at.Next()
		if e := at.Value.(*entry); e.pass > 0 && e.pass < pass {
			c.remove(at)
		}
		at = next
	}
}

func (e *entry) bytes() int { return len(e.part.compressed) + overhead }
