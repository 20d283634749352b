package listingfile_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/listingfile"
)

// full is a line with all fields.
const full = `{"id":"acme-1","company":{"name":"Acme","website":"https://acme.example"},
"applicationUrl":"https://acme.example/apply",
"category":"local","subcategory":"tutoring","summary":"Work.","overview":"More.","startingCost":"0 CAD",
"workModel":"On site",
"publishedAt":"2026-01-02T03:04:05.1234567+01:00","visibility":"published","curation":{"contact":"jo@acme.example",
"notes":"n"},
"facts":{"countryEligibility":[{"country":"CA","status":"eligible","allRegions":null,"includedRegions":["on","CA-QC",
"ON"],
"excludedRegions":["yt"],"sourceUrls":["https://a.example"],"note":"x"},{"country":"US","status":"unknown",
"includedRegions":["US-NY"]}],
"remote":true,"degreeRequired":false,"experienceRequired":null,"flexibleSchedule":true,
"pay":{"minimum":10.5,"maximum":20,"currency":"CAD","unit":"hour","sourceUrl":"https://pay.example"},
"languages":["en"],
"applicationStatus":"open","applicationUrl":"https://acme.example/now","requirements":["A car"],
"riskIndicators":[{"code":"fees","note":"n","sourceUrl":"https://risk.example"}]},
"sources":[{"url":"https://s.example","checkedAt":"2026-01-02"},{"url":"https://t.example",
"checkedAt":"2026-01-02T10:00:00Z"},{"url":"https://u.example","checkedAt":null}],
"companyProfile":{"bio":{"text":"b","sourceUrl":"https://b.example","checkedAt":"2026-01-02"},
"foundedYear":{"value":1999,"sourceUrl":"https://f.example","checkedAt":"2026-01-02"},
"experienceSources":[{"url":"https://e.example","publisher":"P","kind":"ratings","reviewerGroup":"workers",
"rating":{"value":4.2,"best":5,"worst":1,"count":7},"checkedAt":"2026-01-02"},
{"url":"https://e.example","publisher":"P","kind":"community","reviewerGroup":"mixed","rating":null,
"checkedAt":"2026-01-02"}],
"evidenceAssessment":{"level":"strong","note":"","checkedAt":"2026-01-02"}}}`

// sources are those of full.
const sources = `"sources":[{"url":"https://s.example","checkedAt":"2026-01-02"},{"url":"https://t.example",` +
	`"checkedAt":"2026-01-02T10:00:00Z"},{"url":"https://u.example","checkedAt":null}]`

// now is the time at which files are read.
var now = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

func oneLine(s string) string { return strings.ReplaceAll(s, "\n", "") }

func read(t *testing.T, file string) listingfile.File {
	t.Helper()
	f, err := listingfile.Read(strings.NewReader(file), now, api.MaxReported)
	require.NoError(t, err)
	return f
}

func TestReadNormalizes(t *testing.T) {
	f := read(t, "\n"+oneLine(full)+"\r\n\n")
	require.Empty(t, f.Rejected)
	l := f.Lines[0]
	require.Equal(t, "2026-01-02T02:04:05.123456Z", l.PublishedAt.Format(time.RFC3339Nano))
	ca, us := l.Facts.CountryEligibility[0], l.Facts.CountryEligibility[1]
	require.Equal(t, []string{"CA-ON", "CA-QC"}, ca.IncludedRegions)
	require.Equal(t, []string{"CA-YT"}, ca.ExcludedRegions)
	require.Equal(t, []string{}, us.ExcludedRegions)
	require.Equal(t, []string{}, us.SourceURLs)
}

func TestOmittedFieldsAreNil(t *testing.T) {
	f := read(t, `{"id":"a","company":{"name":"A","website":"https://a.example"},"applicationUrl":"https://a.example",`+
		`"category":"sell","summary":"s"}`)
	require.Empty(t, f.Rejected)
	l := f.Lines[0]
	require.Nil(t, l.Facts)
	require.Nil(t, l.CompanyProfile)
	require.Nil(t, l.PublishedAt)
	require.Nil(t, l.Curation)
	require.Empty(t, l.Visibility)
	require.Equal(t, []api.Source{}, l.Sources)
}

func TestPublishedAtWithinClockToleranceBecomesNow(t *testing.T) {
	for at, want := range map[string]string{
		"2026-11-20T08:59:59.5Z": "2026-11-20T08:59:59.5Z", "2026-11-20T09:00:00Z": "2026-11-20T09:00:00Z",
		"2026-11-20T09:00:00.4Z": "2026-11-20T09:00:00Z", "2026-11-20T09:00:01Z": "2026-11-20T09:00:00Z",
	} {
		f := read(t, strings.Replace(oneLine(full), "2026-01-02T03:04:05.1234567+01:00", at, 1))
		require.Empty(t, f.Rejected, at)
		require.Equal(t, want, f.Lines[0].PublishedAt.Format(time.RFC3339Nano))
	}
}

// wrong lists changes that make full invalid, each with the beginning of the reported problem.
var wrong = []struct{ from, to, problem string }{
	{`"acme-1"`, `"Acme_1"`, "id: must be lower-case letters and digits"},
	{`"acme-1"`, `7`, "id: must be a string"},
	{`"id":"acme-1",`, ``, "id: must be"},
	{`"name":"Acme"`, `"name":" "`, "company.name: must not be empty"},
	{`"https://acme.example/apply"`, `"ftp://acme.example"`, "applicationUrl: must be an absolute http or https URL"},
	{`"https://acme.example/apply"`, `null`, "applicationUrl: must be a string"},
	{`"local"`, `"remote"`, "category: must be one of online, sell, local, host; \"remote\" is none"},
	{`"tutoring"`, `""`, "subcategory: must not be empty"},
	{`"2026-01-02T03:04:05.1234567+01:00"`, `"2026-01-02"`, "publishedAt: must be a timestamp"},
	{`"2026-01-02T03:04:05.1234567+01:00"`, `"1969-12-31T23:59:59Z"`, "publishedAt: must be in the years 1970 to 2999"},
	{`"2026-01-02T03:04:05.1234567+01:00"`, `"2026-11-20T09:00:01.001Z"`, "publishedAt: must not be in the future"},
	{sources, `"sources":[]`, "sources: a published listing needs at least one"},
	{sources + ",", ``, "sources: a published listing needs at least one"},
	{`"visibility":"published"`, `"visibility":"public"`, "visibility: must be one of private, published"},
	{`"curation":{`, `"curation":{"phone":"1",`, "curation.phone: is not a known field"},
	{`"visibility"`, `"kind":"earning-platform","visibility"`, "kind: is not a known field"},
	{`"visibility"`, `"verification":{"status":"verified"},"visibility"`, "verification: is not a known field"},
	{`"country":"CA"`, `"country":"ca"`, "facts.countryEligibility[0].country: must be a country code of ISO 3166-1, " +
		"two upper-case letters such as CA; \"ca\" is none: write CA"},
	{`"yt"`, `"XX"`, "facts.countryEligibility[0].excludedRegions[0]: must be a Canadian province"},
	{`"status":"eligible"`, `"status":"maybe"`, "facts.countryEligibility[0].status: must be one of"},
	{`"remote":true`, `"remote":"yes"`, `facts.remote: must be true or false; it is "yes"`},
	{`"minimum":10.5`, `"minimum":-1`, "facts.pay.minimum: -1 must not be negative"},
	{`"minimum":10.5,`, ``, "facts.pay.minimum: is missing"},
	{`"CAD","unit"`, `"Cad","unit"`, "facts.pay.currency: must be a currency code of ISO 4217, three upper-case " +
		"letters such as CAD; \"Cad\" is none: write CAD"},
	{`"applicationStatus":"open"`, `"applicationStatus":"ajar"`, "facts.applicationStatus: must be one of"},
	{`"languages":["en"]`, `"languages":null`, "facts.languages: must be an array"},
	{`"url":"https://s.example","checkedAt":"2026-01-02"`, `"url":"https://s.example","checkedAt":"yesterday"`,
		"sources[0].checkedAt: must be a date"},
	{`"2026-01-02T10:00:00Z"`, `"2026-01-02T10:00:00"`, "sources[1].checkedAt: must be a date"},
	{`"value":1999`, `"value":99`, "companyProfile.foundedYear.value: must be a year of four digits"},
	{`"value":1999`, `"value":1999.5`, "companyProfile.foundedYear.value: must be a whole number, with all its " +
		"digits; it is 1999.5"},
	{`"url":"https://s.example","checkedAt":"2026-01-02"`, `"url":"https://s.example","checkedAt":"2026-11-21"`,
		`sources[0].checkedAt: must not be in the future: it is "2026-11-21", and the clock reads 2026-11-20T09:00:00Z; ` +
			`dates are in UTC`},
	{sources, `"sources":[{"url":"https://s.example","checkedAt":null},{"url":"HTTPS://S.example:443/","checkedAt":null}]`,
		`sources[1]: "HTTPS://S.example:443/" repeats sources[0]; remove one of them`},
	{`"summary":"Work."`, `"summary":"Work &amp; play"`, "summary: must be plain text: write the characters " +
		"themselves instead of the HTML \"&amp;\""},
	{`"value":4.2`, `"value":5.1`, "companyProfile.experienceSources[0].rating.value: must be between worst and best"},
	{`"best":5,"worst":1`, `"best":1,"worst":5`, "companyProfile.experienceSources[0].rating.best: must be above worst"},
	{`"kind":"ratings"`, `"kind":"community"`, "companyProfile.experienceSources[0].rating: must be null"},
	{`"companyProfile":{`, `"companyProfile":{"freshness":"fresh",`, "companyProfile.freshness: is not a known field"},
	{`"companyProfile":{`, `"companyProfile":{"freshUntil":null,`, "companyProfile.freshUntil: is not a known field"},
	{`"level":"strong"`, `"level":"high"`, "companyProfile.evidenceAssessment.level: must be one of"},
	{`"summary":"Work."`, `"summary":"` + strings.Repeat("é", 2001) + `"`, "summary: must have at most 2000 characters"},
	{`"overview":"More."`, `"overview":"\u001b[2J"`, "overview: must not contain U+001B (a control character), its " +
		"character 1"},
	{`"name":"Acme"`, `"name":"Acme\nInc."`, "company.name: must not contain U+000A (a line break), its character 5"},
	{full, `[]`, "the file is a JSON array"},
	{full, `null`, "must be an object"},
}

func TestReadReportsEveryProblem(t *testing.T) {
	for _, c := range wrong {
		require.Contains(t, oneLine(full), oneLine(c.from))
		f := read(t, strings.Replace(oneLine(full), oneLine(c.from), c.to, 1))
		require.Empty(t, f.Lines, c.problem)
		require.Len(t, f.Rejected, 1)
		require.Equal(t, 1, f.Rejected[0].Line)
		require.True(t, strings.HasPrefix(f.Rejected[0].Problems[0].String(), c.problem), "want %q, got %q", c.problem,
			f.Rejected[0].Problems)
	}
}

func TestReadReportsProblemsOfSeveralLines(t *testing.T) {
	bad := strings.NewReplacer(`"local"`, `"x"`, `"Acme"`, `""`).Replace(oneLine(full))
	f := read(t, oneLine(full)+"\n"+bad+"\n\n{}\n")
	require.Len(t, f.Rejected, 2)
	require.Equal(t, 2, f.Rejected[0].Line)
	require.Len(t, f.Rejected[0].Problems, 3, "name, category, and the id of line 1")
	require.Contains(t, f.Rejected[0].Problems, api.Problem{Path: "id", Message: "is on line 1 already"})
	require.Equal(t, 4, f.Rejected[1].Line)
	require.GreaterOrEqual(t, len(f.Rejected[1].Problems), 5)
}

func TestHeader(t *testing.T) {
	line := oneLine(full)
	for file, problem := range map[string]string{
		`{"format":"opportunity-listings","version":1}` + "\n" + line:             "",
		"\ufeff{\"version\":1, \"format\":\"opportunity-listings\"}\r\n\n" + line: "",
		line: "",
		`{"format":"opportunity-listings","version":2}` + "\n{}": "version: must be 1: this release " +
			"reads no other version",
		`{"format":"opportunity-events","version":1}` + "\n" + line: "format: must be opportunity-listings",
		`{"format":"opportunity-listings"}` + "\n" + line:           "version: is missing",
		`{"format":"opportunity-listings","version":"1"}` + "\n" + line: "version: must be a number, without " +
			"quotes; it is \"1\"",
		`{"format":"opportunity-listings","version":1,"made":"x"}` + "\n" + line: "made: is not a known field",
	} {
		f := read(t, file)
		if problem == "" {
			require.Empty(t, f.Rejected, file)
			require.Len(t, f.Lines, 1)
			continue
		}
		require.Equal(t, []api.RejectedLine{{Line: 1, Problems: apitest.Problems(problem)}}, f.Rejected)
		require.Empty(t, f.Lines)
	}
	head := `{"format":"opportunity-listings","version":1}` + "\n"
	require.Empty(t, read(t, head).Rejected, "an empty export")
	f := read(t, head+line+"\n"+head+"{}")
	require.Equal(t, 3, f.Rejected[0].Line, "the header counts as a line, and is only valid on the first")
	require.Equal(t, 4, f.Rejected[1].Line)
	require.Empty(t, read(t, string(listingfile.Example)).Rejected)
	long := strings.Replace(line, `"More."`, `"`+strings.Repeat("x", 9000)+`"`, 1)
	require.Empty(t, read(t, long+"\n").Rejected, "a long first line is not a header")
}

// TestExampleHasEveryField checks that the example, which curators copy, omits no field.
func TestExampleHasEveryField(t *testing.T) {
	var line map[string]any
	require.NoError(t, json.Unmarshal([]byte(exampleLine()), &line))
	for _, column := range listingfile.Columns() {
		var value any = line
		for name := range strings.SplitSeq(column, ".") {
			object, _ := value.(map[string]any)
			require.Contains(t, object, name, "the example has no %s", column)
			value = object[name]
		}
	}
}

// TestEveryTextIsLimited replaces each text of the example by a very long one.
func TestEveryTextIsLimited(t *testing.T) {
	var line listingfile.Line
	require.NoError(t, json.Unmarshal([]byte(exampleLine()), &line))
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		switch {
		case v.Type() == reflect.TypeFor[time.Time]():
		case v.Kind() == reflect.Struct:
			for f, field := range v.Fields() {
				walk(path+"."+f.Name, field)
			}
		case v.Kind() == reflect.Pointer && !v.IsNil():
			walk(path, v.Elem())
		case v.Kind() == reflect.Slice:
			for i := range v.Len() {
				walk(path+"[]", v.Index(i))
			}
		case v.Kind() == reflect.String:
			was := v.String()
			v.SetString(strings.Repeat("x", listingfile.MaxOverview+1))
			text, err := json.Marshal(line)
			require.NoError(t, err)
			require.NotEmpty(t, read(t, string(text)).Rejected, "Read accepts %s of any length", path)
			v.SetString(was)
		}
	}
	walk("line", reflect.ValueOf(&line).Elem())
}

func exampleLine() string { return strings.SplitN(string(listingfile.Example), "\n", 2)[1] }
