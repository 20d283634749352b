package listing_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/services/catalog/internal/listing"
	"opportunity.internal/services/catalog/internal/listingtest"
)

var now = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)

// example returns a line that uses every field of the file format.
func example(t require.TestingT) listingfile.Line {
	f, err := listingfile.Read(bytes.NewReader(listingfile.Example), now, 1)
	require.NoError(t, err)
	require.Empty(t, f.Rejected)
	return f.Lines[0]
}

func TestCreateAndUpdate(t *testing.T) {
	line := example(t)
	line.PublishedAt, line.Visibility = nil, ""
	entry := listing.Create(line, now)
	require.Equal(t, listingfile.Private, entry.Visibility)
	require.Nil(t, entry.PublishedAt)

	for name, c := range map[string]struct {
		edit     func(l *listingfile.Line)
		fields   []string
		material bool
	}{
		"nothing": {func(*listingfile.Line) {}, nil, false},
		"company": {func(l *listingfile.Line) { l.Company.Name = "B" }, []string{"company"}, true},
		"copy":    {func(l *listingfile.Line) { l.Summary, l.Overview = "1", "2" }, []string{"summary", "overview"}, false},
		"curation": {func(l *listingfile.Line) { l.Curation = &api.Curation{Notes: "2"} },
			[]string{"curation"}, false},
		"no curation": {func(l *listingfile.Line) { l.Curation = nil }, nil, false},
		"publication": {func(l *listingfile.Line) { l.Visibility = listingfile.Published },
			[]string{"publishedAt", "visibility"}, false},
	} {
		edited := example(t)
		edited.PublishedAt, edited.Visibility = nil, ""
		c.edit(&edited)
		later := now.Add(time.Hour)
		updated, change := entry.Update(edited, later)
		require.Equal(t, c.fields, change.Fields, name)
		require.Equal(t, c.material, change.Material, name)
		if c.material {
			require.Equal(t, later, *updated.ChangedAt, name)
		} else {
			require.Nil(t, updated.ChangedAt, name)
		}
		again, change := updated.Update(edited, later.Add(time.Hour))
		require.Empty(t, change.Fields, name)
		require.Empty(t, gocmp.Diff(updated, again), name)
	}
}

// TestUpdateReportsAChangeOfAnyField changes every field of a line, nested ones too, one at a time.
func TestUpdateReportsAChangeOfAnyField(t *testing.T) {
	// The listing is published, so visibility cannot change; TestCreateAndUpdate covers visibility.
	skip := []string{"id", "visibility", "Number"}
	var walk func(path string, v reflect.Value, check func(path string))
	walk = func(path string, v reflect.Value, check func(path string)) {
		try := func(value any) {
			was := reflect.ValueOf(v.Interface())
			v.Set(reflect.ValueOf(value).Convert(v.Type()))
			check(path)
			v.Set(was)
		}
		switch v.Kind() {
		case reflect.Struct:
			if at, ok := v.Interface().(time.Time); ok {
				try(at.Add(-time.Microsecond))
				return
			}
			for f, field := range v.Fields() {
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				if f.Anonymous {
					walk(path, field, check)
				} else if path != "" || !slices.Contains(skip, name) && !slices.Contains(skip, f.Name) {
					require.NotEmpty(t, name, "%s.%s has no JSON name: it would be neither exported nor stored", path,
						f.Name)
					walk(strings.TrimPrefix(path+"."+name, "."), field, check)
				}
			}
		case reflect.Pointer:
			require.False(t, v.IsNil(), "the example must use every field: %s is nil", path)
			walk(path, v.Elem(), check)
		case reflect.Slice:
			require.NotZero(t, v.Len(), "the example must use every field: %s is empty", path)
			try(reflect.Append(v, v.Index(0)).Interface())
			walk(path+"[0]", v.Index(0), check)
		case reflect.String:
			try(v.String() + "x")
		case reflect.Bool:
			try(!v.Bool())
		case reflect.Float64:
			try(v.Float() + 1)
		case reflect.Int:
			try(v.Int() + 1)
		default:
			require.Fail(t, "no rule for a field of that kind", "%s: %s", path, v.Kind())
		}
	}
	entry := listing.Create(everyField(t), now)
	line := everyField(t)
	walk("", reflect.ValueOf(&line).Elem(), func(path string) {
		field := path[:len(path)-len(strings.TrimLeftFunc(path, unicode.IsLetter))]
		updated, change := entry.Update(line, now)
		require.Equal(t, []string{field}, change.Fields, path)
		require.Equal(t, listing.Material(field), change.Material, path)
		require.NotEmpty(t, gocmp.Diff(entry, updated), path)
	})
	_, change := entry.Update(line, now)
	require.Empty(t, change.Fields, "walk restores every field")
}

// TestRecordHasEveryFieldOfTheListing checks that Public copies all fields.
func TestRecordHasEveryFieldOfTheListing(t *testing.T) {
	entry := listing.Create(everyField(t), now)
	members := func(v any) (all map[string]any) {
		text, err := json.Marshal(v)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &all))
		return all
	}
	record := members(entry.Public(api.Summary{}, now))
	for name, value := range members(entry.Listing) {
		if name == "companyProfile" { // Public adds fields
			require.Subset(t, record[name], value)
			continue
		}
		require.Equal(t, value, record[name], "the record has no %s", name)
	}
}

// TestEachFieldIsMaterialOrEditorial walks the type: a field without the tag would silently be
// editorial.
func TestEachFieldIsMaterialOrEditorial(t *testing.T) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[listing.Entry]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "-" || name == "id" { // ids never change
			continue
		}
		kind := f.Tag.Get("change")
		require.Contains(t, []string{"material", "editorial"}, kind,
			"decide whether a change of %s puts reviews in doubt: see api.Platform", name)
		require.Equal(t, kind == "material", listing.Material(name), name)
	}
}

// everyField returns the example with a value in every nested field, too.
func everyField(t *testing.T) listingfile.Line {
	line := example(t)
	line.Visibility = listingfile.Published
	line.Facts.ExperienceRequired, line.Facts.ApplicationURL = new(false), new("https://maple-transcripts.example/now")
	line.Facts.Requirements = []string{"A headset"}
	line.Facts.CountryEligibility[0].IncludedRegions = []string{"CA-ON"}
	return line
}

func TestOnlyOperatorsPublishAWithdrawnListing(t *testing.T) {
	const private, published, withdrawn = listingfile.Private, listingfile.Published, listingfile.Withdrawn
	for _, c := range []struct {
		was, line, is listingfile.Visibility
		change        listing.Change
	}{
		{withdrawn, published, withdrawn, listing.Change{Fields: []string{"summary"}, KeptWithdrawn: true}},
		{withdrawn, withdrawn, withdrawn, listing.Change{Fields: []string{"summary"}}},
		{private, withdrawn, withdrawn, listing.Change{Fields: []string{"summary", "visibility"}, Withdrawn: true}},
		{published, withdrawn, withdrawn, listing.Change{Fields: []string{"summary", "visibility"}, Withdrawn: true}},
	} {
		line := everyField(t)
		entry := listing.Create(line, now)
		entry.Visibility, line.Visibility, line.Summary = c.was, c.line, "Other words."
		updated, change := entry.Update(line, now)
		require.Equal(t, c.is, updated.Visibility, c)
		require.Equal(t, c.change, change)
	}
}

func TestCompareSaysWhichReviewsAChangePutsInDoubt(t *testing.T) {
	doubts := 0
	for i, r := range listingtest.Records(31, 120, now) {
		line := listingfile.Line{Listing: r.Entry.Listing}
		switch i % 4 {
		case 0:
			line.StartingCost = "Ten dollars"
		case 1:
			line.Summary = "Other words"
		case 2:
			line.Company.Name = "Sold"
		}
		edited := r
		edited.Entry, _ = r.Entry.Update(line, now)
		doubted := func(r listingtest.Record) bool {
			return r.Entry.Visibility == listingfile.Published && r.Public(now).Verification.Status == api.NeedsReview
		}
		change, err := listing.Compare(&r.Entry, edited.Entry, *cmp.Or(r.Summary, &api.Summary{}), now)
		require.NoError(t, err)
		require.Equal(t, doubted(edited) && !doubted(r), change.NeedsReview, line.ID)
		if change.NeedsReview {
			doubts++
		}
	}
	require.Greater(t, doubts, 10)
}

// FuzzRead checks that the reader never fails, and that an export of an accepted line is accepted
// and changes nothing.
func FuzzRead(f *testing.F) {
	f.Add(listingfile.Example)
	f.Add([]byte("\ufeff" + string(listingfile.Example) + "\r\n\n{}\n[]\nnull"))
	if sample, err := os.ReadFile("../../testdata/platforms.jsonl"); err == nil {
		for i, line := range bytes.SplitAfterN(sample, []byte("\n"), 6)[:5] {
			f.Add(append(line, fmt.Sprintf(`{"id":"x-%d"}`, i)...))
		}
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		in, err := listingfile.Read(bytes.NewReader(file), now, api.MaxReported)
		require.NoError(t, err)
		for _, line := range in.Lines {
			entry := listing.Create(line, now)
			exported, err := json.Marshal(entry)
			require.NoError(t, err)
			again, err := listingfile.Read(bytes.NewReader(exported), now, 1)
			require.NoError(t, err)
			require.Empty(t, again.Rejected, string(exported))
			_, change := entry.Update(again.Lines[0], now)
			require.Empty(t, change.Fields)
			_, err = json.Marshal(entry.Public(api.Summary{}, now))
			require.NoError(t, err)
		}
	})
}

func TestPublicSourcesFollowReviews(t *testing.T) {
	entry := listing.Create(example(t), now)
	entry.Sources = []api.Source{
		{URL: "https://a.example/pay", CheckedAt: new(api.CheckDate("2025-03-01"))},
		{URL: "https://a.example/gone", CheckedAt: new(api.CheckDate("2025-03-01"))},
		{URL: "https://a.example/unopened", CheckedAt: new(api.CheckDate("2025-03-02"))},
	}
	require.Equal(t, entry.Sources, entry.Public(api.Summary{}, now).Sources, "without a review the listing's own")
	got := entry.Public(api.Summary{
		Sources: []api.SourceCheck{{URL: "https://b.example/used", CheckedAt: now.Add(time.Minute)},
			{URL: "https://a.example/pay", CheckedAt: now.Add(-time.Hour)}},
		Gone: []api.SourceCheck{{URL: "https://a.example/gone", CheckedAt: now.Add(-time.Hour)}},
	}, now)
	require.Equal(t, []api.Source{
		{URL: "https://a.example/pay", CheckedAt: new(api.CheckDate("2026-11-19T23:00:00Z"))},
		{URL: "https://a.example/unopened", CheckedAt: new(api.CheckDate("2025-03-02"))},
		{URL: "https://b.example/used", CheckedAt: new(api.CheckDate("2026-11-20T00:00:00Z"))}, // not later than now
	}, got.Sources)
	entry.Sources = nil
	require.NotNil(t, entry.Public(api.Summary{}, now).Sources)
}

func TestPublicFactsOfAClosedPlatform(t *testing.T) {
	entry := listing.Create(example(t), now)
	own := api.UnknownFacts()
	own.ApplicationStatus = api.ApplicationOpen
	entry.Facts = &own
	require.Equal(t, api.ApplicationClosed, entry.Public(api.Summary{Closed: true, LastOutcome: api.OutcomeNeedsReview},
		now).Facts.ApplicationStatus)
	require.Equal(t, api.ApplicationOpen, entry.Public(api.Summary{LastOutcome: api.OutcomeNeedsReview},
		now).Facts.ApplicationStatus)
	require.Equal(t, api.ApplicationOpen, own.ApplicationStatus)
}

func TestOnlyReviewsMoveDatesOfSourcesForward(t *testing.T) {
	dated := func(url, date string) api.Source { return api.Source{URL: url, CheckedAt: new(api.CheckDate(date))} }
	line := example(t)
	line.Sources = []api.Source{dated("https://a.example", "2026-05-02"),
		dated("https://b.example", "2026-05-02T10:00:00+02:00"), {URL: "https://c.example"}}
	entry := listing.Create(line, now)
	line.Sources = []api.Source{dated("https://a.example", "2026-05-03"),
		dated("https://b.example", "2026-05-02T07:59:00Z"),
		dated("https://c.example", "2026-01-01"), dated("https://d.example", "2026-06-01")}
	updated, _ := entry.Update(line, now)
	require.Equal(t, []api.Source{dated("https://a.example", "2026-05-02"),
		dated("https://b.example", "2026-05-02T07:59:00Z"),
		dated("https://c.example", "2026-01-01"), dated("https://d.example", "2026-06-01")}, updated.Sources)
	require.Equal(t, api.CheckDate("2026-05-03"), *line.Sources[0].CheckedAt, "the line is not changed")
}

// TestNoSequenceOfImportsMovesADateForward compares each date with all dates that the page had as a
// source before.
func TestNoSequenceOfImportsMovesADateForward(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := example(t)
		line.Sources = nil
		entry := listing.Create(line, now)
		earliest := map[string]api.CheckDate{}
		for range rapid.IntRange(1, 12).Draw(t, "imports") {
			line.Sources = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) api.Source {
				s := api.Source{URL: rapid.SampledFrom([]string{"https://a.example", "https://b.example"}).Draw(t,
					"url")}
				if day := rapid.IntRange(0, 4).Draw(t, "day"); day > 0 {
					s.CheckedAt = new(api.CheckDate(fmt.Sprintf("2026-05-0%d", day)))
				}
				return s
			}), 0, 3).Draw(t, "sources")
			entry, _ = entry.Update(line, now)
			require.Len(t, entry.Sources, len(line.Sources))
			for i, given := range line.Sources {
				got := entry.Sources[i].CheckedAt
				if given.CheckedAt == nil {
					require.Nil(t, got)
					continue
				}
				want, known := earliest[given.URL]
				if !known || *given.CheckedAt < want {
					want = *given.CheckedAt
				}
				require.Equal(t, want, *got)
			}
			for _, s := range entry.Sources {
				if s.CheckedAt != nil && (earliest[s.URL] == "" || *s.CheckedAt < earliest[s.URL]) {
					earliest[s.URL] = *s.CheckedAt
				}
			}
		}
	})
}
