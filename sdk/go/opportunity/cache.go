package opportunity

import "sync"

// Cache stores responses by URL. Implementations must be safe for concurrent use. A cache belongs
// to one account, because other accounts may see other records.
type Cache interface {
	Get(url string) (CacheEntry, bool)
	Put(url string, entry CacheEntry)
}

// CacheEntry is a stored response.
type CacheEntry struct {
	ETag string
	Body []byte
}

// MemoryCache is a Cache in memory. When it is full, it drops the oldest entry.
type MemoryCache struct {
	mu      sync.Mutex
	size    int
	entries map[string]CacheEntry
	order   []string // URLs, oldest first
}

// NewMemoryCache returns a cache for up to size responses.
func NewMemoryCache(size int) *MemoryCache {
	return &MemoryCache{size: max(1, size), entries: map[string]CacheEntry{}}
}

// Get returns the entry of a URL.
func (c *MemoryCache) Get(url string) (CacheEntry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry, ok := c.entries[url]
	return entry, ok
}

// Put stores the entry of a URL.
func (c *MemoryCache) Put(url string, entry CacheEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.entries[url]; !ok {
		if len(c.order) == c.size {
			delete(c.entries, c.order[0])
			c.order = c.order[1:]
		}
		c.order = append(c.order, url)
	}
	c.entries[url] = entry
}
