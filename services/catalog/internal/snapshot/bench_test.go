package snapshot

import (
	"bytes"
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/catalog/internal/listing"
	"opportunity.internal/services/catalog/internal/listingtest"
	"opportunity.internal/services/catalog/internal/query"
)

// recordSize is the approximate size of a maintained record, encoded.
const recordSize = 2900

// reference returns a record of recordSize bytes with a review, facts and a profile.
func reference(b testing.TB) listingtest.Record {
	for _, r := range listingtest.Records(1, 100, now) {
		if r.Summary != nil && r.Summary.Facts != nil && r.Summary.LastCheckedAt != nil &&
			r.Entry.CompanyProfile != nil {
			built := build(b, empty, []listingtest.Record{r}, 1)
			r.Entry.Overview = strings.Repeat("x", recordSize-len(built.order[0].text))
			return r
		}
	}
	b.Fatal("the sample has no record with a review, facts and a profile")
	return listingtest.Record{}
}

// distinctBodies is the number of bodies that the records of a catalog share: enough to exceed the
// processor's cache, few enough for a million records on a small machine. Everything else, and the
// whole index, has full size.
const distinctBodies = 20_000

var catalogs = map[int]func() *Snapshot{}

// catalog returns a snapshot of n records, built once. Reviews are a second apart, every second
// record is remote, and every tenth is eligible in Ontario. A record has a name of its own and 18
// of 50,000 words; some words are frequent.
func catalog(b *testing.B, n int) *Snapshot {
	b.Helper()
	if catalogs[n] == nil {
		catalogs[n] = sync.OnceValue(func() *Snapshot {
			prototype := build(b, empty, []listingtest.Record{reference(b)}, 1).order[0]
			bodies := make([][]byte, min(n, distinctBodies))
			for i := range bodies {
				bodies[i] = bytes.Clone(prototype.text)
			}
			changes := make([]change, n)
			words := rand.NewZipf(rand.New(rand.NewPCG(1, 1)), 1.1, 20, 49_999)
			for i := range changes {
				terms := fmt.Sprintf("wname%d\naopen\n", i)
				for range 18 {
					at := words.Uint64()
					terms += fmt.Sprintf("w%c%c%d\n", 'a'+at%26, 'a'+at/26%26, at)
				}
				if i%(n/100) == 0 {
					terms += "wtranscription\n"
				}
				r := *prototype
				r.id, r.text = fmt.Sprintf("platform-%07d", i), bodies[i%len(bodies)]
				r.checked = unixNanos(now.Add(-time.Duration(i) * time.Second))
				r.published = r.checked
				r.flags, r.facts = undisputed|open, facts{}
				r.facts.set(0, new(i%2 == 0))
				r.category = uint8(i % 4)
				r.countries, r.provinces = nil, 0
				if i%10 == 0 {
					r.countries, r.provinces = []country{{'C', 'A'}}, 1<<8
				}
				r.terms = maphash.String(seed, terms)
				changes[i] = change{id: r.id, record: &r, terms: terms}
			}
			return empty.apply(changes, 1, 1)
		})
	}
	return catalogs[n]()
}

// BenchmarkList measures lists of 100 records ("answered") against copying the same bytes in one
// piece, the lower bound ("written").
func BenchmarkList(b *testing.B) {
	for _, n := range []int{1_000, 1_000_000} {
		b.Run(fmt.Sprintf("%d/first-page/answered", n), func(b *testing.B) {
			s := catalog(b, n)
			var buf []byte
			b.ReportAllocs()
			for b.Loop() {
				q, _ := query.Parse("limit=100", 100)
				buf = s.At(now).Select(q.Filter, api.Commercial).Append(buf[:0], q.Page)
			}
			b.SetBytes(int64(len(buf)))
		})
		b.Run(fmt.Sprintf("%d/first-page/written", n), func(b *testing.B) {
			q, _ := query.Parse("limit=100", 100)
			page := catalog(b, n).At(now).Select(q.Filter, api.Commercial).Append(nil, q.Page)
			buf := make([]byte, 0, len(page))
			b.SetBytes(int64(len(page)))
			for b.Loop() {
				buf = append(buf[:0], page...)
			}
			runtime.KeepAlive(buf)
		})
	}
}

// BenchmarkSearch measures the first page of searches whose result is not cached, and of the list
// as the baseline: a word that 100 records have, one that most have, every word with a letter, and
// a search with conditions of all kinds.
func BenchmarkSearch(b *testing.B) {
	for _, n := range []int{100_000, 1_000_000} {
		for _, c := range []struct{ name, raw string }{
			{"list", ""}, {"selective", "q=transcrip"}, {"frequent", "q=aa0"}, {"letter", "q=a"},
			{"alphabet", "q=a+b+c+d+e+f+g+h+i+j+k+l+m+n+o+p+q+r+s+t+u+v+w+x+y+z"},
			{"all", "q=a+transcr&application_status=open&country=CA&province=ON&verified=true"},
		} {
			b.Run(fmt.Sprintf("%d/%s", n, c.name), func(b *testing.B) {
				s := catalog(b, n)
				var buf []byte
				b.ReportAllocs()
				for b.Loop() {
					clear(s.filters.sets)
					q, err := query.ParseSearch(c.raw+"&limit=100", 100)
					require.NoError(b, err)
					buf = s.At(now).Select(q.Filter, api.Commercial).Append(buf[:0], q.Page)
				}
				b.SetBytes(int64(len(buf)))
			})
		}
	}
}

// BenchmarkHeld reports the memory of a snapshot of 100,000 records for each byte of their encoded
// form. One iteration is enough.
func BenchmarkHeld(b *testing.B) {
	const n = 100_000
	r := reference(b)
	prototype := row(b, r, 1)
	for b.Loop() {
		before := heapSize()
		enc := newEncoder(clock)
		changes := make([]change, n)
		var encoded int
		for i := range changes {
			id := fmt.Sprintf("platform-%07d", i)
			prototype.Document.String = strings.Replace(prototype.Document.String, prototype.ID, id, 1)
			prototype.ID = id
			c, err := enc.change(prototype)
			require.NoError(b, err)
			changes[i] = c
			encoded += len(c.record.text)
		}
		s := empty.apply(changes, 1, 1)
		b.ReportMetric(float64(heapSize()-before)/float64(encoded), "held/encoded")
		b.ReportMetric(float64(encoded)/n, "bytes/record")
		runtime.KeepAlive(s)
	}
}

// BenchmarkResident reports the memory that a process with 100,000 records needs for each byte of
// their encoded form, without its program: after the load, and the most of it during 1,000 changes
// of one record. One iteration is enough.
func BenchmarkResident(b *testing.B) {
	for b.Loop() {
		s := &generatedSource{n: 100_000, sequence: 100_000, row: row(b, reference(b), 1)}
		l := NewLive(s, clock, slog.New(slog.DiscardHandler))
		require.NoError(b, l.Poll(b.Context()))
		loaded, changed := residentSize(), uint64(0)
		for range 1000 {
			s.sequence++
			require.NoError(b, l.Poll(b.Context()))
			changed = max(changed, residentSize())
		}
		encoded := float64(l.Stats().Bytes)
		b.ReportMetric(float64(loaded)/encoded, "loaded/encoded")
		b.ReportMetric(float64(changed)/encoded, "changed/encoded")
		runtime.KeepAlive(l)
	}
}

// residentSize returns the memory that the process has from the operating system.
func residentSize() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Sys - m.HeapReleased
}

// generatedSource is a Source of n records that it makes when they are read. Each sequence above n
// is a change of one record.
type generatedSource struct {
	n, sequence int64
	row         Row
}

func (s *generatedSource) Sequence(context.Context) (int64, error) { return s.sequence, nil }

func (s *generatedSource) PositionAt(context.Context, int64) (listing.Position, error) {
	return listing.Position{}, nil
}

func (s *generatedSource) Changes(_ context.Context, after int64, each func(Row) error) error {
	for sequence := after + 1; sequence <= s.sequence; sequence++ {
		r := s.row
		r.Sequence, r.PublicSequence, r.ID = sequence, sequence, fmt.Sprintf("platform-%07d", sequence*7919%s.n)
		r.Document.String = strings.Replace(r.Document.String, s.row.ID, r.ID, 1)
		if err := each(r); err != nil {
			return err
		}
	}
	return nil
}

func heapSize() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
