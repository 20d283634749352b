package compress

import (
	"bytes"
	stdgzip "compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

// text is a part whose version is its text. Appends counts how often the text was compressed.
type text struct {
	string
	appends *int
}

func (t text) Append(buf []byte) []byte {
	if t.appends != nil {
		*t.appends++
	}
	return append(buf, t.string...)
}

func (t text) AppendVersion(buf []byte) []byte { return append(buf, t.string...) }

// decode decodes a complete body with decoders other than the ones that made it. zstd must be one frame.
func decode(t testing.TB, coding Coding, body []byte) string {
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
		"": Identity, "gzip": Gzip, "GZIP": Gzip, "gzip, deflate, br": Gzip, "zstd": Zstd, "gzip, deflate, br, zstd": Gzip, "zstd, gzip": Gzip,
		"gzip;q=0.5, zstd;q=0.6": Zstd, "gzip;q=0.6, zstd;q=0.5": Gzip, "gzip;q=0": Identity, "gzip; q=0, zstd": Zstd,
		"gzip;q=0.000": Identity, "identity": Identity, "identity, gzip;q=0.5": Identity, "identity;q=0.5, gzip": Gzip, "*": Identity, "br": Identity,
		"gzip;q=x": Identity, "gzip;q=NaN": Identity, "gzip;q=2": Identity, "gzip;q=-1": Identity, "gzip;level=9": Identity, ",": Identity, ";q=1": Identity,
	} {
		require.Equal(t, want, Negotiate([]string{accept}), accept)
	}
	require.Equal(t, Identity, Negotiate(nil))
	require.Equal(t, Gzip, Negotiate([]string{"br", "gzip"}), "several fields")
}

// Bodies of several parts, decoded by programs that have nothing in common with the encoders.
func TestDecodersOfTheSystem(t *testing.T) {
	one := strings.Repeat(`{"name":"one"},`, 5000)
	gzipped := NewCache(MaxBytes).Append(nil, Gzip, []Part{text{"[" + one, nil}, text{one + one, nil}, text{"{}", nil}}, []byte(`],"at":1}`))
	check := exec.CommandContext(t.Context(), "gzip", "-dc")
	check.Stdin = bytes.NewReader(gzipped)
	plain, err := check.Output()
	require.NoError(t, err)
	require.Equal(t, "["+one+one+one+`{}],"at":1}`, string(plain))
	require.Less(t, len(gzipped), len(plain)/20)
}

func TestPartIsCompressedOnce(t *testing.T) {
	for _, coding := range []Coding{Gzip, Zstd} {
		c, appends := NewCache(MaxBytes), 0
		parts := []Part{text{strings.Repeat("once ", 1000), &appends}}
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				tail := fmt.Sprint("tail ", i)
				body := c.Append(nil, coding, parts, []byte(tail))
				if got := decode(t, coding, body); got != parts[0].(text).string+tail {
					t.Errorf("%s: got %.20s...", coding, got)
				}
			})
		}
		all.Wait()
		require.Equal(t, 1, appends, coding)
	}
}

// The memory of a cache is bounded: of the parts in it, by their compressed size and an overhead for each. Parts in use stay.
func TestCacheIsBounded(t *testing.T) {
	const limit = 64 << 10
	c, often := NewCache(limit), 0
	for i := range 2000 {
		tail := []byte("end")
		c.Append(nil, Gzip, []Part{text{"used often", &often}}, tail)
		c.Append(nil, Gzip, []Part{text{fmt.Sprint(i, strings.Repeat("seldom ", i)), nil}}, tail)
		require.LessOrEqual(t, c.size, limit)
	}
	require.Equal(t, 1, often, "times that a part in use was compressed")
	held := 0
	for at := c.used.Front(); at != nil; at = at.Next() {
		held += cap(at.Value.(*entry).part.compressed) + overhead
	}
	require.InDelta(t, held, c.size, limit/10, "counted bytes")
	require.Len(t, c.parts, c.used.Len())

	large, appends := make([]byte, 2*limit), 0
	_, _ = rand.NewChaCha8([32]byte{}).Read(large)
	for range 2 { // a part that does not fit is not kept
		require.Equal(t, string(large)+"end", decode(t, Gzip, c.Append(nil, Gzip, []Part{text{string(large), &appends}}, []byte("end"))))
	}
	require.Equal(t, 2, appends)
	require.LessOrEqual(t, c.size, limit)
}

func TestPassDropsWhatOnlyEarlierPassesPrepared(t *testing.T) {
	c, appends := NewCache(MaxBytes), 0
	first, both, requested := text{"first", &appends}, text{"both", &appends}, text{"requested", &appends}
	c.Append(nil, Gzip, []Part{requested}, nil)
	for pass, parts := range [][]Part{{first, both}, {both}} {
		for _, p := range parts {
			_, built := c.Prepare(pass+1, p)
			require.Equal(t, pass == 0, built)
		}
		c.EndPass(pass + 1)
	}
	require.Equal(t, 3, appends)
	require.Len(t, c.parts, 2)
	require.Equal(t, c.used.Len(), len(c.parts))
	c.Append(nil, Gzip, []Part{both, requested}, nil)
	require.Equal(t, 3, appends, "the parts of the second pass and of requests stay")
	c.Append(nil, Gzip, []Part{first}, nil)
	require.Equal(t, 4, appends)
}

func FuzzNegotiate(f *testing.F) {
	f.Add("gzip;q=0.5, zstd , identity;q=0")
	f.Fuzz(func(t *testing.T, accept string) {
		if coding := Negotiate([]string{accept}); coding != Identity && !strings.Contains(strings.ToLower(accept), string(coding)) {
			t.Errorf("%q: got %q, which the client did not name", accept, coding)
		}
	})
}

// FuzzAppend splits a text into parts and a tail, twice, with a cache that knows some of them.
func FuzzAppend(f *testing.F) {
	f.Add([]byte(`{"data":[{"id":"a"},{"id":"b"}],"meta":{}}`), uint16(3), uint16(20), uint16(30))
	f.Add(bytes.Repeat([]byte("platform "), 20_000), uint16(1), uint16(50_000), uint16(60_000))
	f.Add([]byte{}, uint16(0), uint16(0), uint16(0))
	cache := NewCache(1 << 20)
	f.Fuzz(func(t *testing.T, body []byte, a, b, c uint16) {
		from := func(n uint16) int { return min(int(n), len(body)) }
		first, second := min(from(a), from(b)), max(from(a), from(b))
		end := max(second, from(c), len(body)-MaxTail)
		split := []Part{text{string(body[:first]), nil}, text{string(body[first:second]), nil}, text{string(body[second:end]), nil}}
		for _, parts := range [][]Part{split, {split[0], text{string(body[first:end]), nil}}, split} {
			require.Equal(t, string(body), decode(t, Gzip, cache.Append(nil, Gzip, parts, body[end:])))
		}
		whole := text{string(body[:end]), nil}
		if end > 0 && !bytes.Contains(body, []byte("\x28\xb5\x2f\xfd")) {
			require.Equal(t, string(body), decode(t, Zstd, cache.Append(nil, Zstd, []Part{whole}, body[end:])))
		}
	})
}
