package snapshot

import (
	"bytes"
	"cmp"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"net/url"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/pkg/params"
	"opportunity.internal/services/catalog/internal/listingtest"
	"opportunity.internal/services/catalog/internal/query"
)

var now = time.Date(2026, 11, 20, 10, 0, 0, 123456000, time.UTC)

func clock() time.Time { return now }

// stored returns a text that is not null.
func stored(text string) sql.NullString { return sql.NullString{String: text, Valid: true} }

func row(t require.TestingT, r listingtest.Record, sequence int64) Row {
	out := Row{Sequence: sequence, PublicSequence: sequence, ID: r.Entry.ID, PublishedAt: r.Entry.PublishedAt,
		ChangedAt: r.Entry.ChangedAt}
	if r.Entry.Visibility == listingfile.Published {
		document, err := json.Marshal(r.Entry.Listing)
		require.NoError(t, err)
		out.Document = stored(string(document))
	}
	if r.Summary != nil {
		summary, err := json.Marshal(r.Summary)
		require.NoError(t, err)
		out.Summary = stored(string(summary))
	}
	return out
}

func build(t require.TestingT, on *Snapshot, records []listingtest.Record, sequence int64) *Snapshot {
	enc := newEncoder(clock)
	changes := make([]change, len(records))
	for i, r := range records {
		var err error
		changes[i], err = enc.change(row(t, r, sequence))
		require.NoError(t, err)
	}
	return on.apply(changes, sequence, sequence)
}

var filters = sync.OnceValue(combinations)

// combinations returns all filters with these values. Each parameter is either absent or has one of
// its values.
func combinations() []url.Values {
	parameters := [][]string{ // each with its values
		{"country", "ca", "US", "ZZ"}, {"province", api.Provinces[0], "ca-qc"}, {"verified", "true", "false"},
		{"category", "online", "host"}, {"checked_after", "2026-11-10", "2026-11-06T10:00:00.123456Z"},
	}
	for _, b := range api.BoolFacts {
		parameters = append(parameters, []string{b.Param, "true", "false"})
	}
	all := []url.Values{{}}
	for _, p := range parameters {
		for _, v := range all[:len(all):len(all)] {
			if p[0] == "province" && v.Get("country") != "ca" {
				continue
			}
			for _, value := range p[1:] {
				with := maps.Clone(v)
				with.Set(p[0], value)
				all = append(all, with)
			}
		}
	}
	return all
}

func encoded(t require.TestingT, all []api.Opportunity) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if all == nil {
		all = []api.Opportunity{}
	}
	require.NoError(t, enc.Encode(all))
	return bytes.TrimSpace(b.Bytes())
}

// walk reads all pages and returns their records as one array.
func walk(t require.TestingT, v View, tier api.Tier, raw string) []byte {
	got := []byte{'['}
	for number := 1; ; number++ {
		q, err := query.ParseSearch(fmt.Sprintf("%s&page=%d&limit=7", raw, number), 100)
		require.NoError(t, err)
		sel := v.Select(q.Filter, tier)
		page := sel.Append(nil, q.Page)
		if len(page) > 0 && number > 1 {
			got = append(got, ',')
		}
		got = append(got, page...)
		if q.Page.Offset()+q.Page.Limit >= sel.Total() {
			return append(got, ']')
		}
	}
}

func TestEveryFilterMatchesTheOracle(t *testing.T) {
	records := listingtest.Records(7, 150, now)
	snapshot := build(t, empty, records, 1)
	require.Greater(t, len(filters()), 10_000)
	view := snapshot.At(now)
	all := listingtest.Published(records, now)
	for _, tier := range []api.Tier{api.Commercial, api.Free} {
		for _, f := range filters() {
			want := wantList(all, tier, f)
			if got := walk(t, view, tier, f.Encode()); !bytes.Equal(encoded(t, want), got) {
				require.Equal(t, string(encoded(t, want)), string(got), "%s %s", tier, f.Encode())
			}
		}
	}
}

// searches are values of the parameters that only the search takes.
var searches = map[string][]string{
	"q": {
		"company", "COMP", "e\u0301te\u0301", "c\u00f8mp", "ompany", "co mp", "é", "e", "ete", "ÉTÉ strasse", "STRASSE",
		"straß", "œuvre",
		"oeuv", "no", "№", "ﬁn", "fin emploi",
		"l'emploi", "emploi l", "σισυφος", "ΣΊΣΥΦΟΣ", "σισυφοσ", "translation", "한", "한국어", "हि", "12", "１", "sub",
		"annot donnees", "maple", "10", "plain c",
		"a", "zzz", "and word", "d'ann",
	},
	"application_status": {"open", "waitlist", "closed", "unknown"},
	"language":           {"english", "FRENCH", "francais", "fr", "e", "canadian french", "french francais", "z"},
	"pay_unit":           {"hour", "year", "task", "audio-minute"},
	"subcategory": {"SUB", "su", "Data Annotation", "data", "annotation-data", "donnees ANNOTEES",
		"EV CHARGING"},
}

func TestSearchMatchesTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := listingtest.Records(rapid.Uint64().Draw(t, "seed"), 60, now)
		f := rapid.SampledFrom(filters()).Draw(t, "filter")
		raw := f.Encode()
		f = maps.Clone(f)
		for name, values := range searches {
			if rapid.IntRange(0, 2).Draw(t, name) == 0 {
				f.Set(name, rapid.SampledFrom(values).Draw(t, "value"))
			}
		}
		if rapid.Bool().Draw(t, "few conditions") {
			for name := range f {
				if name != "q" && name != "language" && name != "subcategory" {
					f.Del(name)
				}
			}
		}
		s := build(t, build(t, empty, records[:30], 1), records, 2)
		all := listingtest.Published(records, now)
		for _, tier := range []api.Tier{api.Commercial, api.Free} {
			require.Equal(t, string(encoded(t, wantList(all, tier, f))), string(walk(t, s.At(now), tier, f.Encode())),
				"%s %s", f.Encode(), raw)
		}
	})
}

// Terms of records that are gone do not stay.
func TestTermsAreOfTheRecords(t *testing.T) {
	s, r := empty, listingtest.Records(1, 1, now)[0]
	for n := range 3000 {
		r.Entry.Company.Name = fmt.Sprintf("name%d", n)
		s = build(t, s, []listingtest.Record{r}, int64(n+1))
		for word, want := range map[string]int{fmt.Sprintf("name%d", n): 1, fmt.Sprintf("name%d", n-1): 0, "name": 1} {
			require.Equal(t, want, s.At(now).Select(query.Filter{Search: query.Search{Q: word}},
				api.Commercial).Total(), "%s at %d", word, n)
		}
	}
	require.Less(t, len(s.terms.sorted), 1100)
	require.Less(t, len(s.bySlot), 1100)
	require.Len(t, s.terms.byText, len(s.terms.sorted))
}

func TestNearIDs(t *testing.T) {
	var records []listingtest.Record
	for i, r := range listingtest.Records(3, 6, now) {
		r.Entry.ID = []string{"maple-scribe", "maple-survey", "pine-scribe", "maples", "acme", "host-a"}[i]
		r.Entry.Company.Name = []string{"Maple Scribe", "Maple Survey", "Pine Scribe", "Maples", "Globex", "Host A"}[i]
		r.Entry.Summary, r.Entry.Subcategory = "", nil
		records = append(records, r)
	}
	v := build(t, empty, records, 1).At(now)
	for id, want := range map[string][]string{
		"maple-scrib": {"maple-scribe"}, "mapel-scribe": {"maple-scribe", "pine-scribe", "maple-survey"},
		"Maple Scribe": {"maple-scribe"},
		"globex":       {"acme"}, "scribe": {"pine-scribe", "maple-scribe"},
		"maple": {"maples", "maple-scribe", "maple-survey"}, "xyzzy": nil, "-": nil, "": nil,
	} {
		require.Equal(t, want, v.Near(id, api.Commercial), id)
	}
	for _, id := range v.Near("maple", api.Free) {
		_, ok := v.Find(id, api.Free)
		require.True(t, ok, id)
	}
}

func TestIncrementalSnapshotEqualsFullLoad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pool := listingtest.Records(rapid.Uint64().Draw(t, "seed"), 40, now)
		other := listingtest.Records(rapid.Uint64().Draw(t, "other seed"), 40, now)
		state := map[string]listingtest.Record{}
		grown := empty
		for step := range rapid.IntRange(1, 6).Draw(t, "steps") {
			var changed []listingtest.Record
			for i := range pool {
				var r listingtest.Record
				switch rapid.IntRange(0, 5).Draw(t, "what") {
				case 0:
					r = pool[i]
				case 1: // new content under the same id
					r = other[i]
					r.Entry.ID = pool[i].Entry.ID
				case 2:
					r = pool[i]
					r.Entry.Visibility = listingfile.Withdrawn
				default:
					continue
				}
				state[r.Entry.ID] = r
				changed = append(changed, r)
			}
			grown = build(t, grown, changed, int64(step+1))
			at := now.Add(time.Duration(rapid.Int64Range(0, 40*24).Draw(t, "hours")) * time.Hour)
			records := make([]listingtest.Record, 0, len(state))
			for _, r := range state {
				records = append(records, r)
			}
			all := listingtest.Published(records, at)
			require.Equal(t, len(all), grown.Len())
			free := map[string]bool{}
			for _, o := range wantFree(all) {
				free[o.ID] = true
			}
			for _, raw := range []string{"", "verified=true", "verified=false", "country=CA&province=ON",
				"remote=true&flexible=false"} {
				f, err := url.ParseQuery(raw)
				require.NoError(t, err)
				for _, tier := range []api.Tier{api.Developer, api.Free} {
					require.Equal(t, string(encoded(t, wantList(all, tier, f))),
						string(walk(t, grown.At(at), tier, raw)))
				}
			}
			for id, r := range state {
				record, ok := grown.At(at).Find(id, api.Developer)
				require.Equal(t, r.Entry.Visibility == listingfile.Published, ok)
				_, shown := grown.At(at).Find(id, api.Free)
				require.Equal(t, free[id], shown)
				if ok {
					require.Equal(t, string(encoded(t, []api.Opportunity{r.Public(at)})),
						"["+string(record.Append(nil))+"]")
				}
			}
		}
	})
}

func TestStatusChangesWithTheClock(t *testing.T) {
	records := listingtest.Records(11, 60, now)
	snapshot := build(t, empty, records, 1)
	var times []time.Time
	for _, r := range records {
		o := r.Public(now)
		if until := o.Verification.FreshUntil; until != nil {
			times = append(times, until.Add(time.Nanosecond)) // a review is still fresh at FreshUntil
		}
		if p := o.CompanyProfile; p != nil && p.FreshUntil != nil {
			times = append(times, *p.FreshUntil) // a profile is not
		}
	}
	rand.New(rand.NewPCG(3, 4)).Shuffle(len(times), func(i, j int) { times[i], times[j] = times[j], times[i] })
	require.NotEmpty(t, times)
	for _, after := range times {
		before := after.Add(-time.Nanosecond)
		if before.Before(now) { // a response is never older than its checks
			continue
		}
		for _, at := range []time.Time{before, after} {
			view := snapshot.At(at)
			require.Equal(t, string(encoded(t, listingtest.Published(records, at))),
				string(walk(t, view, api.Commercial, "")))
			require.Equal(t, string(encoded(t, wantFree(listingtest.Published(records, at)))),
				string(walk(t, view, api.Free, "")))
		}
		require.NotEqual(t, snapshot.At(before).Version(), snapshot.At(after).Version(), "want another version at %s",
			after)
		require.Equal(t, snapshot.At(after).Version(), build(t, empty, records, 1).At(after).Version(),
			"want the same version on another replica")
	}
}

func TestPageBeyondTheEndIsEmpty(t *testing.T) {
	view := build(t, empty, listingtest.Records(1, 20, now), 1).At(now)
	for _, tier := range []api.Tier{api.Free, api.Commercial} {
		sel := view.Select(query.Filter{}, tier)
		require.Empty(t, sel.Append(nil, params.Page{Number: params.MaxPage, Limit: params.MaxLimit}))
	}
	none := empty.At(now).Select(query.Filter{}, api.Commercial)
	require.Zero(t, none.Total())
	require.Empty(t, none.Append(nil, params.Page{Number: 1, Limit: 10}))
}

func TestFilterCacheIsBounded(t *testing.T) {
	records := listingtest.Records(9, 50, now)
	snapshot := build(t, empty, records, 1)
	all := listingtest.Published(records, now)
	for a := 'A'; a <= 'Z'; a++ {
		for b := 'A'; b <= 'Z'; b++ {
			f := url.Values{"country": {string([]rune{a, b})}, "category": {"online"}}
			require.Equal(t, string(encoded(t, wantList(all, api.Commercial, f))),
				string(walk(t, snapshot.At(now), api.Commercial, f.Encode())))
		}
	}
	require.Len(t, snapshot.filters.sets, maxCachedSets, "full after more different filters")
}

// Every record stays fresh between two requests: the cutoff of the first is the end of the list.
func TestCutoffAtTheEndOfTheList(t *testing.T) {
	records := listingtest.Records(1, 20, now)
	snapshot := build(t, empty, records, 1)
	at := time.UnixMicro(0)
	require.Equal(t, snapshot.At(at).cutoff, snapshot.At(at).cutoff)
	require.True(t, snapshot.isCutoff(len(snapshot.checked), never))
}

func TestTimesAreCappedOnlyOutsideTheRange(t *testing.T) {
	for _, year := range []int{1678, 2261} {
		at := time.Date(year, 6, 1, 0, 0, 0, 0, time.UTC)
		require.Equal(t, at.UnixNano(), unixNanos(at))
	}
	require.EqualValues(t, never+1, unixNanos(time.Date(1677, 1, 1, 0, 0, 0, 0, time.UTC)))
	require.EqualValues(t, math.MaxInt64, unixNanos(time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC)))
}

func TestUnreadableDocumentErrorNamesTheListing(t *testing.T) {
	for _, bad := range []Row{
		{ID: "broken", Document: stored("{")},
		{ID: "broken", Document: stored("")},
		{ID: "broken", Document: stored(`{"category":"online"}`), Summary: stored("[]")},
		{ID: "broken", Document: stored(`{"category":"online"}`), Summary: stored("")},
		{ID: "broken", Document: stored(`{"category":"offline"}`)},
	} {
		_, err := newEncoder(clock).change(bad)
		require.ErrorContains(t, err, "broken")
	}
}

func TestListDoesNotAllocatePerRecord(t *testing.T) {
	snapshot := build(t, empty, listingtest.Records(13, 400, now), 1)
	buf := make([]byte, 0, 1<<20)
	for _, raw := range []string{"", "&verified=false", "&remote=true&category=online", "&country=CA&province=ON"} {
		allocated := func(limit string) float64 {
			return testing.AllocsPerRun(50, func() {
				q, _ := query.Parse("limit="+limit+raw, 100)
				buf = snapshot.At(now).Select(q.Filter, api.Commercial).Append(buf[:0], q.Page)
			})
		}
		// parsing a three-digit number may cost one allocation
		require.InDelta(t, allocated("1"), allocated("100"), 1, raw)
	}
}

// TestCheckTimesAreCappedAtTheResponseTime covers a check recorded by a host with a fast clock.
func TestCheckTimesAreCappedAtTheResponseTime(t *testing.T) {
	r := listingtest.Records(1, 1, now)[0]
	ahead := now.Add(time.Second)
	r.Summary = &api.Summary{Slug: r.Entry.ID, LastCheckedAt: &ahead, FirstCheckedAt: &ahead,
		LastOutcome: api.OutcomeVerified, ReviewCount: 1,
		ApplicationLink: &api.ApplicationLink{Outcome: api.OutcomeReachable, CheckedAt: ahead}}
	found, ok := build(t, empty, []listingtest.Record{r}, 1).At(now).Find(r.Entry.ID, api.Developer)
	require.True(t, ok)
	var shown api.Opportunity
	require.NoError(t, json.Unmarshal(found.Append(nil), &shown))
	require.Equal(t, now, *shown.Verification.LastCheckedAt)
	require.Equal(t, now, *shown.Verification.FirstCheckedAt)
	require.Equal(t, now, shown.Verification.ApplicationLink.CheckedAt)
	require.Equal(t, api.Verified, shown.Verification.Status)
}

func TestHeapGrowsLessTheMoreIsEncoded(t *testing.T) {
	for encoded, want := range map[int64]int{0: 400, 1 << 20: 400, 64 << 20: 28, 220 << 20: 12, 2600 << 20: 12} {
		require.Equal(t, want, growth(encoded), "%d MiB", encoded>>20)
	}
}

// defaultHeap undoes settings of the heap until the test ends, and then what the test sets.
func defaultHeap(t *testing.T) {
	t.Helper()
	t.Setenv("GOGC", "") // restores it after the test
	os.Unsetenv("GOGC")  // it would override the growth of the heap
	percent := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(percent) })
}

// heapGrowth returns the growth of the heap until the next collection, in percent.
func heapGrowth() int {
	percent := debug.SetGCPercent(100)
	debug.SetGCPercent(percent)
	return percent
}

func TestMemoryStaysCloseToTheEncodedRecords(t *testing.T) {
	defaultHeap(t)
	before := residentSize()
	s := &generatedSource{n: 30_000, sequence: 30_000, row: row(t, reference(t), 1)}
	l := NewLive(s, clock, slog.New(slog.DiscardHandler))
	require.NoError(t, l.Poll(t.Context()))
	encoded := l.Stats().Bytes
	require.Less(t, residentSize(), before+uint64(encoded)*17/10)
	require.Equal(t, growth(encoded), heapGrowth())
}

func TestEarlierSnapshotDoesNotChange(t *testing.T) {
	records := listingtest.Records(3, 300, now)
	earlier := build(t, empty, records, 1)
	list := func() string { return string(walk(t, earlier.At(now), api.Commercial, "")) }
	before, id := list(), earlier.order[0].id
	withdrawn := earlier.apply([]change{{id: id}}, 2, 2)
	require.Equal(t, before, list())
	_, found := withdrawn.At(now).Find(id, api.Commercial)
	require.False(t, found)
	_, found = earlier.At(now).Find(id, api.Commercial)
	require.True(t, found)
}

func TestMergedEqualsSortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOfN(rapid.IntRange(0, 20), 0, 40)
		common, removed, added := numbers.Draw(t, "common"), numbers.Draw(t, "removed"), numbers.Draw(t, "added")
		list, want := slices.Sorted(slices.Values(append(slices.Clone(common), removed...))),
			slices.Sorted(slices.Values(append(slices.Clone(common), added...)))
		require.Equal(t, append([]int{}, want...), merged(list, removed, added, cmp.Compare[int]))
	})
}
