package httpapi

import (
	"bytes"
	stdgzip "compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// text returns a text, and counts how often it was compressed.
func text(s string, compressed *atomic.Int32) func([]byte) []byte {
	return func(buf []byte) []byte {
		compressed.Add(1)
		return append(buf, s...)
	}
}

// uncompressed decodes a complete body with a decoder other than the one that made it.
func uncompressed(t testing.TB, body []byte) string {
	t.Helper()
	in, err := stdgzip.NewReader(bytes.NewReader(body))
	require.NoError(t, err)
	in.Multistream(false)
	plain, err := io.ReadAll(in)
	require.NoError(t, err)
	return string(plain)
}

func TestAcceptsGzip(t *testing.T) {
	for accept, want := range map[string]bool{
		"gzip": true, "GZIP": true, "gzip, deflate, br, zstd": true, "gzip;q=0.5": true, "identity;q=0.5, gzip": true,
		"": false, "zstd": false, "gzip;q=0": false, "gzip; q=0.000": false, "identity, gzip;q=0.5": false, "*": false,
		"gzip;q=x": false, "gzip;q=NaN": false, "gzip;q=2": false, "gzip;q=-1": false, "gzip;level=9": false,
		",": false, ";q=1": false,
	} {
		require.Equal(t, want, acceptsGzip([]string{accept}), accept)
	}
	require.False(t, acceptsGzip(nil))
	require.True(t, acceptsGzip([]string{"br", "gzip"}), "several fields")
}

func TestPageIsCompressedOncePerVersion(t *testing.T) {
	c, plain := NewCache(MaxBytes), strings.Repeat("once ", 1000)
	for version := range 3 {
		var compressed atomic.Int32
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				tail := fmt.Sprint("tail ", i)
				body := c.Append(nil, fmt.Sprint(version), "page=1", text(plain, &compressed), []byte(tail))
				if got := uncompressed(t, body); got != plain+tail {
					t.Errorf("got %.20s...", got)
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 1, compressed.Load())
		c.pages.CleanUp()
		require.Equal(t, 1, c.pages.EstimatedSize(), "pages of older versions are dropped")
	}
}

func TestCacheIsBounded(t *testing.T) {
	const limit = 64 << 10
	c := NewCache(limit)
	source := rand.NewChaCha8([32]byte{})
	for i := range 500 {
		page := make([]byte, 10*i)
		_, _ = source.Read(page)
		got := c.Append(nil, "1", fmt.Sprint(i), text(string(page), new(atomic.Int32)), []byte("end"))
		require.Equal(t, string(page)+"end", uncompressed(t, got))
		c.pages.CleanUp()
		require.LessOrEqual(t, c.pages.WeightedSize(), uint64(limit))
	}
	require.NotZero(t, c.pages.WeightedSize())
	large := make([]byte, 2*limit)
	_, _ = source.Read(large)
	require.Equal(t, string(large)+"end", uncompressed(t,
		c.Append(nil, "1", "large", text(string(large), new(atomic.Int32)), []byte("end"))))
	c.pages.CleanUp()
	require.LessOrEqual(t, c.pages.WeightedSize(), uint64(limit), "a page that does not fit is not kept")
}

func FuzzAcceptsGzip(f *testing.F) {
	f.Add("gzip;q=0.5, zstd , identity;q=0")
	f.Fuzz(func(t *testing.T, accept string) {
		if acceptsGzip([]string{accept}) && !strings.Contains(strings.ToLower(accept), "gzip") {
			t.Errorf("%q: the client did not name gzip", accept)
		}
	})
}

// FuzzAppend splits a body into a text and a tail.
func FuzzAppend(f *testing.F) {
	f.Add([]byte(`{"data":[{"id":"a"},{"id":"b"}],"meta":{}}`), uint16(30))
	f.Add(bytes.Repeat([]byte("platform "), 20_000), uint16(60_000))
	f.Add([]byte{}, uint16(0))
	f.Fuzz(func(t *testing.T, body []byte, n uint16) {
		end := max(min(int(n), len(body)), len(body)-MaxTail)
		got := NewCache(1<<20).Append(nil, "1", "a", text(string(body[:end]), new(atomic.Int32)), body[end:])
		require.Equal(t, string(body), uncompressed(t, got))
	})
}
