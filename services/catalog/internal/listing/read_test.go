package listing_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/catalog/internal/listing"
)

// full is a line that uses every field.
const full = `{"id":"acme-1","company":{"name":"Acme","website":"https://acme.example"},"applicationUrl":"https://acme.example/apply",
"category":"local","subcategory":"tutoring","summary":"Work.","overview":"More.","startingCost":"0 CAD","workModel":"On site",
"publishedAt":"2026-01-02T03:04:05.1234567+01:00","visibility":"published","curation":{"contact":"jo@acme.example","notes":"n"},
"facts":{"countryEligibility":[{"country":"CA","status":"eligible","allRegions":null,"includedRegions":["on","CA-QC","ON"],
"excludedRegions":["yt"],"sourceUrls":["https://a.example"],"note":"x"},{"country":"US","status":"unknown","includedRegions":["US-NY"]}],
"remote":true,"degreeRequired":false,"experienceRequired":null,"flexibleSchedule":true,
"pay":{"minimum":10.5,"maximum":20,"currency":"CAD","unit":"hour","sourceUrl":"https://pay.example"},"languages":["en"],
"applicationStatus":"open","applicationUrl":"https://acme.example/now","requirements":["A car"],
"riskIndicators":[{"code":"fees","note":"n","sourceUrl":"https://risk.example"}]},
"sources":[{"url":"https://s.example","checkedAt":"2026-01-02"},{"url":"https://t.example","checkedAt":"2026-01-02T10:00:00Z"},{"url":"https://u.example","checkedAt":null}],
"companyProfile":{"bio":{"text":"b","sourceUrl":"https://b.example","checkedAt":"2026-01-02"},
"foundedYear":{"value":1999,"sourceUrl":"https://f.example","checkedAt":"2026-01-02"},
"experienceSources":[{"url":"https://e.example","publisher":"P","kind":"ratings","reviewerGroup":"workers","rating":{"value":4.2,"best":5,"worst":1,"count":7},"checkedAt":"2026-01-02"},
{"url":"https://e.example","publisher":"P","kind":"community","reviewerGroup":"mixed","rating":null,"checkedAt":"2026-01-02"}],
"evidenceAssessment":{"level":"strong","note":"","checkedAt":"2026-01-02"}}}`

func oneLine(s string) string { return strings.ReplaceAll(s, "\n", "") }

func read(t *testing.T, file string) listing.File {
	t.Helper()
	f, err := listing.Read(strings.NewReader(file))
	require.NoError(t, err)
	return f
}

func TestReadNormalises(t *testing.T) {
	f := read(t, "\n"+oneLine(full)+"\r\n\n")
	require.Empty(t, f.Refused)
	l := f.Lines[0]
	require.Equal(t, "2026-01-02T02:04:05.123456Z", l.PublishedAt.Format(time.RFC3339Nano))
	ca, us := l.Facts.CountryEligibility[0], l.Facts.CountryEligibility[1]
	require.Equal(t, []string{"CA-ON", "CA-QC"}, ca.IncludedRegions)
	require.Equal(t, []string{"CA-YT"}, ca.ExcludedRegions)
	require.Equal(t, []string{}, us.ExcludedRegions)
	require.Equal(t, []string{}, us.SourceURLs)
}

func TestAMissingPartIsNotRecorded(t *testing.T) {
	f := read(t, `{"id":"a","company":{"name":"A","website":"https://a.example"},"applicationUrl":"https://a.example","category":"sell","summary":"s"}`)
	require.Empty(t, f.Refused)
	l := f.Lines[0]
	require.Nil(t, l.Facts)
	require.Nil(t, l.CompanyProfile)
	require.Nil(t, l.PublishedAt)
	require.Nil(t, l.Curation)
	require.Empty(t, l.Visibility)
	require.Equal(t, []api.Source{}, l.Sources)
}

func TestEveryProblemIsNamed(t *testing.T) {
	for _, c := range []struct{ from, to, problem string }{
		{`"acme-1"`, `"Acme_1"`, "id: must be lower-case letters and digits"},
		{`"acme-1"`, `"` + strings.Repeat("a", 81) + `"`, "id: must be"},
		{`"acme-1"`, `7`, "id: must be a string"},
		{`"id":"acme-1",`, ``, "id: must be"},
		{`"name":"Acme"`, `"name":" "`, "company.name: must not be empty"},
		{`"https://acme.example/apply"`, `"ftp://acme.example"`, "applicationUrl: must be an absolute http or https URL"},
		{`"https://acme.example/apply"`, `"https://user:pw@acme.example"`, "applicationUrl: must be"},
		{`"https://acme.example/apply"`, `null`, "applicationUrl: must be a string"},
		{`"local"`, `"remote"`, "category: must be one of online, sell, local, host"},
		{`"tutoring"`, `""`, "subcategory: must not be empty"},
		{`"2026-01-02T03:04:05.1234567+01:00"`, `"2026-01-02"`, "publishedAt: must be a timestamp"},
		{`"2026-01-02T03:04:05.1234567+01:00"`, `"9999-12-31T23:59:59Z"`, "publishedAt: must lie in the years 1970 to 2999"},
		{`"visibility":"published"`, `"visibility":"public"`, "visibility: must be one of private, published"},
		{`"curation":{`, `"curation":{"phone":"1",`, "curation.phone: is not a known field"},
		{`"visibility"`, `"kind":"earning-platform","visibility"`, "kind: is not a known field"},
		{`"visibility"`, `"verification":{"status":"verified"},"visibility"`, "verification: is not a known field"},
		{`"country":"CA"`, `"country":"ca"`, "facts.countryEligibility[0].country: must be two upper-case letters"},
		{`"yt"`, `"XX"`, "facts.countryEligibility[0].excludedRegions[0]: must be a Canadian province"},
		{`"US-NY"`, `"CA-ON"`, "facts.countryEligibility[1].includedRegions[0]: must be an ISO 3166-2 code"},
		{`"status":"eligible"`, `"status":"maybe"`, "facts.countryEligibility[0].status: must be one of"},
		{`"remote":true`, `"remote":"yes"`, "facts.remote: must be true or false"},
		{`"minimum":10.5`, `"minimum":-1`, "facts.pay.minimum: must not be negative"},
		{`"maximum":20`, `"maximum":10`, "facts.pay.maximum: must not be below the minimum"},
		{`"minimum":10.5,`, ``, "facts.pay.minimum: is missing"},
		{`"minimum":10.5`, `"minimum":1e999`, "line: "},
		{`"CAD","unit"`, `"Cad","unit"`, "facts.pay.currency: must be three upper-case letters"},
		{`"applicationStatus":"open"`, `"applicationStatus":"ajar"`, "facts.applicationStatus: must be one of"},
		{`"languages":["en"]`, `"languages":null`, "facts.languages: must be an array"},
		{`"url":"https://s.example","checkedAt":"2026-01-02"`, `"url":"https://s.example","checkedAt":"yesterday"`, "sources[0].checkedAt: must be a date"},
		{`"2026-01-02T10:00:00Z"`, `"2026-01-02T10:00:00"`, "sources[1].checkedAt: must be a date"},
		{`"value":1999`, `"value":99`, "companyProfile.foundedYear.value: must be a year of four digits"},
		{`"value":1999`, `"value":1999.5`, "line: "},
		{`"value":4.2`, `"value":5.1`, "companyProfile.experienceSources[0].rating.value: must lie between worst and best"},
		{`"best":5,"worst":1`, `"best":1,"worst":5`, "companyProfile.experienceSources[0].rating.best: must be above worst"},
		{`"kind":"ratings"`, `"kind":"community"`, "companyProfile.experienceSources[0].rating: must be null"},
		{`"companyProfile":{`, `"companyProfile":{"freshness":"fresh",`, "companyProfile.freshness: is not a known field"},
		{`"companyProfile":{`, `"companyProfile":{"freshUntil":null,`, "companyProfile.freshUntil: is not a known field"},
		{`"level":"strong"`, `"level":"high"`, "companyProfile.evidenceAssessment.level: must be one of"},
		{`"summary":"Work."`, `"summary":"` + strings.Repeat("é", 2001) + `"`, "summary: must have at most 2000 characters"},
		{`"overview":"More."`, `"overview":"\u0000"`, "overview: must not contain U+0000"},
		{full, `[]`, "line: must be an object"},
		{full, `{"id":`, "line: must be one JSON object"},
		{`"More."`, "\"\xff\"", "line: must be UTF-8"},
	} {
		require.Contains(t, oneLine(full), oneLine(c.from))
		f := read(t, strings.Replace(oneLine(full), oneLine(c.from), c.to, 1))
		require.Empty(t, f.Lines, c.problem)
		require.Len(t, f.Refused, 1)
		require.Equal(t, 1, f.Refused[0].Line)
		require.True(t, strings.HasPrefix(f.Refused[0].Problems[0], c.problem), "want %q, got %q", c.problem, f.Refused[0].Problems)
	}
}

func TestSeveralProblemsOfSeveralLinesAreAllNamed(t *testing.T) {
	bad := strings.NewReplacer(`"local"`, `"x"`, `"Acme"`, `""`).Replace(oneLine(full))
	f := read(t, oneLine(full)+"\n"+bad+"\n\n{}\n")
	require.Len(t, f.Refused, 2)
	require.Equal(t, 2, f.Refused[0].Line)
	require.Len(t, f.Refused[0].Problems, 3, "name, category, and the id of line 1")
	require.Contains(t, f.Refused[0].Problems, "id: is on line 1 already")
	require.Equal(t, 4, f.Refused[1].Line)
	require.GreaterOrEqual(t, len(f.Refused[1].Problems), 5)
}

func TestReportsAreBounded(t *testing.T) {
	f := read(t, strings.Repeat("{}\n", listing.MaxReported+7))
	require.Len(t, f.Refused, listing.MaxReported)
	require.Equal(t, 7, f.Omitted)
}

func TestCreateAndUpdate(t *testing.T) {
	now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	line := read(t, oneLine(full)).Lines[0]
	line.PublishedAt, line.Visibility = nil, ""
	entry := line.Create(now)
	require.Equal(t, listing.Private, entry.Visibility)
	require.Nil(t, entry.PublishedAt)

	for name, c := range map[string]struct {
		edit     func(l *listing.Line)
		fields   []string
		material bool
	}{
		"nothing":        {func(*listing.Line) {}, nil, false},
		"company":        {func(l *listing.Line) { l.Company.Name = "B" }, []string{"company"}, true},
		"applicationUrl": {func(l *listing.Line) { l.ApplicationURL += "/2" }, []string{"applicationUrl"}, true},
		"category":       {func(l *listing.Line) { l.Category = api.Host }, []string{"category"}, true},
		"startingCost":   {func(l *listing.Line) { l.StartingCost = "1" }, []string{"startingCost"}, true},
		"workModel":      {func(l *listing.Line) { l.WorkModel = "1" }, []string{"workModel"}, true},
		"no facts":       {func(l *listing.Line) { l.Facts = nil }, []string{"facts"}, true},
		"copy": {func(l *listing.Line) {
			l.Subcategory, l.Summary, l.Overview, l.Sources, l.CompanyProfile = nil, "1", "2", []api.Source{}, nil
		}, []string{"subcategory", "summary", "overview", "sources", "companyProfile"}, false},
		"curation":      {func(l *listing.Line) { l.Curation = &listing.Curation{Notes: "2"} }, []string{"curation"}, false},
		"no curation":   {func(l *listing.Line) { l.Curation = nil }, nil, false},
		"publication":   {func(l *listing.Line) { l.Visibility = listing.Published }, []string{"publishedAt", "visibility"}, false},
		"not withdrawn": {func(l *listing.Line) { l.Visibility = listing.Withdrawn }, nil, false},
	} {
		edited := read(t, oneLine(full)).Lines[0]
		edited.PublishedAt, edited.Visibility = nil, ""
		c.edit(&edited)
		later := now.Add(time.Hour)
		updated, change := edited.Update(entry, later)
		require.Equal(t, c.fields, change.Fields, name)
		require.Equal(t, c.material, change.Material, name)
		if c.material {
			require.Equal(t, later, *updated.ChangedAt, name)
		} else {
			require.Nil(t, updated.ChangedAt, name)
		}
		again, change := edited.Update(updated, later.Add(time.Hour))
		require.Empty(t, change.Fields, name)
		require.Empty(t, cmp.Diff(updated, again), name)
	}
}

// FuzzRead holds the reader to two promises: it never fails on any input, and what it accepts it accepts again, unchanged, in
// the form of an export.
func FuzzRead(f *testing.F) {
	f.Add([]byte(oneLine(full)))
	f.Add([]byte("\ufeff" + oneLine(full) + "\r\n\n{}\n[]\nnull"))
	if sample, err := os.ReadFile("../../testdata/platforms.jsonl"); err == nil {
		for i, line := range bytes.SplitAfterN(sample, []byte("\n"), 6)[:5] {
			f.Add(append(line, fmt.Sprintf(`{"id":"x-%d"}`, i)...))
		}
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		in, err := listing.Read(bytes.NewReader(file))
		require.NoError(t, err)
		now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
		for _, line := range in.Lines {
			entry := line.Create(now)
			exported, err := json.Marshal(entry)
			require.NoError(t, err)
			again, err := listing.Read(bytes.NewReader(exported))
			require.NoError(t, err)
			require.Empty(t, again.Refused, string(exported))
			_, change := again.Lines[0].Update(entry, now)
			require.Empty(t, change.Fields)
			_, err = json.Marshal(entry.Public(api.Summary{}, now))
			require.NoError(t, err)
		}
	})
}
