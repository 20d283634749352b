package httpapi

import (
	"bytes"
	stdgzip "compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

// text returns a text, and counts how often it was compressed.
func text(s string, compressed *atomic.Int32) func([]byte) []byte {
	return func(buf []byte) []byte {
		compressed.Add(1)
		return append(buf, s...)
	}
}

// decode decodes a complete body with decoders other than the ones that made it. zstd must be one
// frame.
func uncompressed(t testing.TB, coding Coding, body []byte) string {
	t.Helper()
	if coding == Gzip {
		in, err := stdgzip.NewReader(bytes.NewReader(body))
		require.NoError(t, err)
		in.Multistream(false)
		plain, err := io.ReadAll(in)
		require.NoError(t, err)
		return string(plain)
	}
	require.Equal(t, 1, bytes.Count(body, []byte("\x28\xb5\x2f\xfd")), "frames")
	in, err := zstd.NewReader(nil)
	require.NoError(t, err)
	defer in.Close()
	plain, err := in.DecodeAll(body, nil)
	require.NoError(t, err)
	return string(plain)
}

func TestNegotiate(t *testing.T) {
	for accept, want := range map[string]Coding{
		"": Identity, "gzip": Gzip, "GZIP": Gzip, "gzip, deflate, br": Gzip, "zstd": Zstd,
		"gzip, deflate, br, zstd": Gzip, "zstd, gzip": Gzip,
		"gzip;q=0.5, zstd;q=0.6": Zstd, "gzip;q=0.6, zstd;q=0.5": Gzip, "gzip;q=0": Identity, "gzip; q=0, zstd": Zstd,
		"gzip;q=0.000": Identity, "identity": Identity, "identity, gzip;q=0.5": Identity, "identity;q=0.5, gzip": Gzip,
		"*": Identity, "br": Identity,
		"gzip;q=x": Identity, "gzip;q=NaN": Identity, "gzip;q=2": Identity, "gzip;q=-1": Identity,
		"gzip;level=9": Identity, ",": Identity, ";q=1": Identity,
	} {
		require.Equal(t, want, Negotiate([]string{accept}), accept)
	}
	require.Equal(t, Identity, Negotiate(nil))
	require.Equal(t, Gzip, Negotiate([]string{"br", "gzip"}), "several fields")
}

// The decoder has nothing in common with the encoder.
func TestGzipOfTheSystemDecodesBodies(t *testing.T) {
	plain := strings.Repeat(`{"name":"one"},`, 5000)
	body := NewCache(MaxBytes).Append(nil, Gzip, "1", "page=1", text(plain, new(atomic.Int32)), []byte(`],"at":1}`))
	check := exec.CommandContext(t.Context(), "gzip", "-dc")
	check.Stdin = bytes.NewReader(body)
	got, err := check.Output()
	require.NoError(t, err)
	require.Equal(t, plain+`],"at":1}`, string(got))
	require.Less(t, len(body), len(plain)/20)
}

func TestPageIsCompressedOncePerVersion(t *testing.T) {
	for _, coding := range []Coding{Gzip, Zstd} {
		c, plain := NewCache(MaxBytes), strings.Repeat("once ", 1000)
		for version := range 3 {
			var compressed atomic.Int32
			var all sync.WaitGroup
			for i := range 20 {
				all.Go(func() {
					tail := fmt.Sprint("tail ", i)
					body := c.Append(nil, coding, fmt.Sprint(version), "page=1", text(plain, &compressed), []byte(tail))
					if got := uncompressed(t, coding, body); got != plain+tail {
						t.Errorf("%s: got %.20s...", coding, got)
					}
				})
			}
			all.Wait()
			require.EqualValues(t, 1, compressed.Load(), coding)
			c.pages.CleanUp()
			require.Equal(t, 1, c.pages.EstimatedSize(), "pages of older versions are dropped")
		}
	}
}

func TestCacheIsBounded(t *testing.T) {
	const limit = 64 << 10
	c := NewCache(limit)
	source := rand.NewChaCha8([32]byte{})
	for i := range 500 {
		page := make([]byte, 10*i)
		_, _ = source.Read(page)
		got := c.Append(nil, Gzip, "1", fmt.Sprint(i), text(string(page), new(atomic.Int32)), []byte("end"))
		require.Equal(t, string(page)+"end", uncompressed(t, Gzip, got))
		c.pages.CleanUp()
		require.LessOrEqual(t, c.pages.WeightedSize(), uint64(limit))
	}
	require.NotZero(t, c.pages.WeightedSize())
	large := make([]byte, 2*limit)
	_, _ = source.Read(large)
	require.Equal(t, string(large)+"end", uncompressed(t, Gzip,
		c.Append(nil, Gzip, "1", "large", text(string(large), new(atomic.Int32)), []byte("end"))))
	c.pages.CleanUp()
	require.LessOrEqual(t, c.pages.WeightedSize(), uint64(limit), "a page that does not fit is not kept")
}

func FuzzNegotiate(f *testing.F) {
	f.Add("gzip;q=0.5, zstd , identity;q=0")
	f.Fuzz(func(t *testing.T, accept string) {
		if coding := Negotiate([]string{accept}); coding != Identity &&
			!strings.Contains(strings.ToLower(accept), string(coding)) {
			t.Errorf("%q: got %q, which the client did not name", accept, coding)
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
		for _, coding := range []Coding{Gzip, Zstd} {
			if coding == Zstd && (end == 0 || bytes.Contains(body, []byte("\x28\xb5\x2f\xfd"))) {
				continue
			}
			got := NewCache(1<<20).Append(nil, coding, "1", "a", text(string(body[:end]), new(atomic.Int32)),
				body[end:])
			require.Equal(t, string(body), uncompressed(t, coding, got))
		}
	})
}
