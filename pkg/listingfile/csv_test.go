package listingfile_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/listingfile"
)

// texts generates texts that spreadsheets, CSV and JSON are likely to change, and random texts.
func texts() *rapid.Generator[string] {
	part := rapid.OneOf(
		rapid.SampledFrom([]string{
			"=1+1", "+", "-2", "@x", "'", "''=", "json:", `json:"x"`, "[", "]", `["a"]`, "\"", "\"\"", ",", ";", "\n", "\r",
			"\r\n", "\t", " ",
			"\\.", "é", "日本", "می\u200cخواهم", "\u00a0", "TRUE", "null", "0.10", "https://a.example/ 2026-01-02", "<&>",
		}),
		rapid.Map(rapid.StringN(0, 5, -1), func(s string) string { // undamaged, without HTML
			return strings.NewReplacer("\ufffd", "", "<", "", "&", "", "Â", "", "Ã", "", "â", "", "ï", "", "ð", "", "√", "",
				"‚", "").Replace(s)
		}),
	)
	return rapid.OneOf(rapid.Just(" "), rapid.Map(rapid.SliceOfN(part, 1, 4),
		func(parts []string) string { return strings.Join(parts, "") }).
		Filter(accepted(api.Lines)))
}

func accepted(check func(string, int) (string, error)) func(string) bool {
	return func(text string) bool {
		_, err := check(text, 1000)
		return err == nil
	}
}

func names() *rapid.Generator[string] { return texts().Filter(accepted(api.Line)) }

func filled() *rapid.Generator[string] { return texts().Filter(accepted(api.Lines)) }

// compared returns a text in the form in which repeated ones are found.
func compared(text string) string {
	text, _ = api.Lines(text, 1000) // other texts are not drawn
	return strings.ToLower(text)
}

// single reports whether a text can be one language.
func single(text string) bool { return !strings.ContainsAny(text, ",;/|\u037e") } // U+037E normalizes to a semicolon

// omit sets a field to null or not.
func omit[T any](t *rapid.T, field **T) {
	if rapid.Bool().Draw(t, "omit") {
		*field = nil
	}
}

// randomLine returns full with other texts, and without some of its fields.
func randomLine(t *rapid.T) (l listingfile.Line) {
	require.NoError(t, json.Unmarshal([]byte(full), &l))
	facts, profile := l.Facts, l.CompanyProfile
	facts.Complete()
	country, risk, publisher := &facts.CountryEligibility[0], &facts.RiskIndicators[0], &profile.ExperienceSources[0]
	for _, text := range []*string{&l.Overview, &l.StartingCost, &l.WorkModel, &l.Curation.Contact, &l.Curation.Notes,
		&country.Note, &risk.Note, &profile.EvidenceAssessment.Note} {
		*text = texts().Draw(t, "text")
	}
	for _, name := range []*string{&l.Company.Name, l.Subcategory, &risk.Code, &publisher.Publisher} {
		*name = names().Draw(t, "name")
	}
	l.Summary, profile.Bio.Text = filled().Draw(t, "summary"), filled().Draw(t, "bio")
	facts.Languages = rapid.SliceOfNDistinct(names().Filter(single), 0, 3, compared).Draw(t, "languages")
	facts.Requirements = rapid.SliceOfNDistinct(filled(), 0, 3, compared).Draw(t, "requirements")
	facts.Pay.Minimum = float64(rapid.Int64Range(0, 1e9).Draw(t, "minimum")) /
		float64(rapid.SampledFrom([]int{1, 10, 1000, 10_000_000}).Draw(t, "decimals"))
	facts.Pay.Maximum = facts.Pay.Minimum * 2
	l.Sources[0].URL = rapid.SampledFrom([]string{"https://a.example/?q=1,2&x='y'", "http://b.example/%20#@"}).Draw(t, "url")
	l.ID = rapid.StringMatching(`[a-z0-9]{1,8}(-[a-z0-9]{1,4})?`).Draw(t, "id")
	l.Visibility = rapid.SampledFrom([]listingfile.Visibility{"", listingfile.Private, listingfile.Withdrawn}).
		Draw(t, "visibility")
	omit(t, &l.Sources[0].CheckedAt)
	omit(t, &country.AllRegions)
	omit(t, &facts.Remote)
	omit(t, &facts.Pay)
	omit(t, &facts.ApplicationURL)
	omit(t, &profile.Bio)
	omit(t, &profile.FoundedYear)
	omit(t, &profile.EvidenceAssessment)
	omit(t, &l.PublishedAt)
	omit(t, &l.Subcategory)
	omit(t, &l.Facts)
	omit(t, &l.CompanyProfile)
	omit(t, &l.Curation)
	return l
}

// TestCSVRoundTrip converts random listings from JSON Lines to CSV and back.
func TestCSVRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var file bytes.Buffer
		for i, l := range rapid.SliceOfN(rapid.Custom(randomLine), 1, 4).Draw(t, "lines") {
			l.ID += strings.Repeat("x", i*10)
			text, err := json.Marshal(l)
			require.NoError(t, err)
			file.Write(append(text, '\n'))
		}
		want, err := listingfile.Read(bytes.NewReader(file.Bytes()), now, 10)
		require.NoError(t, err)
		require.Empty(t, want.Rejected, file.String())
		var table, back bytes.Buffer
		require.NoError(t, listingfile.ToCSV(&file, &table))
		rows, err := csv.NewReader(bytes.NewReader(table.Bytes())).ReadAll()
		require.NoError(t, err)
		for _, row := range rows[1:] {
			for _, cell := range row {
				require.False(t, cell != "" && strings.ContainsAny(cell[:1], "=+-@\t\r\n"), "a spreadsheet would evaluate %q", cell)
				require.NotContains(t, cell, ";=")
				require.NotContains(t, cell, "\r")
			}
		}
		rejected, err := listingfile.FromCSV(&table, &back)
		require.NoError(t, err)
		require.Empty(t, rejected)
		got, err := listingfile.Read(&back, now, 10)
		require.NoError(t, err)
		require.Empty(t, got.Rejected)
		require.Len(t, got.Lines, len(want.Lines))
		for i, l := range want.Lines {
			if l.Number = got.Lines[i].Number; l.Curation == nil { // empty cells are empty notes
				l.Curation = new(api.Curation)
			}
			require.Equal(t, l, got.Lines[i])
		}
	})
}

// sheet returns a CSV file with the header and the row of the example, changed by edit.
func sheet(t *testing.T, edit func(header, row []string) ([]string, []string)) string {
	t.Helper()
	var table, out bytes.Buffer
	require.NoError(t, listingfile.ToCSV(bytes.NewReader(listingfile.Example), &table))
	rows, err := csv.NewReader(&table).ReadAll()
	require.NoError(t, err)
	header, row := edit(rows[0], rows[1])
	w := csv.NewWriter(&out)
	require.NoError(t, w.WriteAll([][]string{header, row}))
	return out.String()
}

func fromCSV(t *testing.T, file string) (listingfile.File, []api.RejectedLine) {
	t.Helper()
	var out bytes.Buffer
	rejected, err := listingfile.FromCSV(strings.NewReader(file), &out)
	require.NoError(t, err)
	return read(t, out.String()), rejected
}

func TestFromCSVAcceptsSpreadsheetVariations(t *testing.T) {
	file := sheet(t, func(header, row []string) ([]string, []string) {
		row[slices.Index(header, "facts.remote")] = "TRUE"
		row[slices.Index(header, "sources")] = " https://a.example 2026-11-18 \n\nhttps://b.example"
		row[slices.Index(header, "facts.countryEligibility")] = ""
		row[slices.Index(header, "facts.riskIndicators")] = "[\n]"
		return header, row
	})
	lines := strings.ReplaceAll(file, "\n", "\r\n") + strings.Repeat(",", len(listingfile.Columns())-1) + "\r\n"
	f, rejected := fromCSV(t, "\ufeff"+lines)
	require.Empty(t, rejected)
	require.Empty(t, f.Rejected)
	require.Len(t, f.Lines, 1, "an empty row is skipped")
	require.True(t, *f.Lines[0].Facts.Remote)
	require.Equal(t, []api.Source{{URL: "https://a.example", CheckedAt: new(api.CheckDate("2026-11-18"))},
		{URL: "https://b.example"}}, f.Lines[0].Sources)
	require.Empty(t, f.Lines[0].Facts.CountryEligibility)
}

func TestOmittedColumnIsOmittedField(t *testing.T) {
	f, rejected := fromCSV(t, sheet(t, func(header, row []string) ([]string, []string) {
		for _, name := range []string{"publishedAt", "visibility", "curation.contact", "curation.notes"} {
			i := slices.Index(header, name)
			header, row = slices.Delete(header, i, i+1), slices.Delete(row, i, i+1)
		}
		slices.Reverse(header)
		slices.Reverse(row)
		return header, row
	}))
	require.Empty(t, rejected)
	require.Empty(t, f.Rejected)
	require.Nil(t, f.Lines[0].Curation)
	require.Nil(t, f.Lines[0].PublishedAt)
}

func TestFromCSVReportsProblemsByLineAndColumn(t *testing.T) {
	cell := func(name, value string) func(header, row []string) ([]string, []string) {
		return func(header, row []string) ([]string, []string) {
			row[slices.Index(header, name)] = value
			return header, row
		}
	}
	rename := func(name, to string) func(header, row []string) ([]string, []string) {
		return func(header, row []string) ([]string, []string) {
			header[slices.Index(header, name)] = to
			return header, row
		}
	}
	columns := len(listingfile.Columns())
	for _, c := range []struct {
		edit    func(header, row []string) ([]string, []string)
		line    int
		problem string
	}{
		{cell("facts.remote", "yes"), 2, "facts.remote: must be true, false or empty; \"yes\" is none"},
		{cell("facts.pay.minimum", "45.000"), 2, `facts.pay.minimum: "45.000" can be 45 or 45000: write 45 or 45000`},
		{cell("companyProfile.foundedYear.value", "2.01E+03"), 2, `companyProfile.foundedYear.value: "2.01E+03" is ` +
			`abbreviated: write all digits`},
		{cell("facts.pay.minimum", "9007199254740993"), 2, `facts.pay.minimum: "9007199254740993" has more than 15 digits`},
		{cell("facts.pay.minimum", ""), 2, "facts.pay.minimum: is missing"},
		{cell("facts.countryEligibility", "CA"), 2, "facts.countryEligibility: must be a JSON array"},
		{cell("facts.countryEligibility", `[{"land":"CA"}]`), 2, "facts.countryEligibility[0].land: is not a known field"},
		{cell("facts.languages", "[English"), 2, "facts.languages: must be a JSON array"},
		{cell("sources", "https://a.example yesterday"), 2, "sources[0].checkedAt: must be a date"},
		{cell("summary", "\xff"), 2, "must be UTF-8: save the file as UTF-8; nothing after this line was read"},
		{cell("summary", "json:x"), 2, "summary: must be a JSON string after json:"},
		{cell("summary", `json:"\ud83d"`), 2, `summary: must not contain \ud83d, half of a surrogate pair`},
		{cell("facts.languages", `["a\ude00"]`), 2, `facts.languages[0]: must not contain \ude00, half of a surrogate pair`},
		{cell("summary", ""), 2, "summary: must not be empty"},
		{cell("category", "farm"), 2, "category: must be one of"},
		{rename("facts.remote", "facts.remot"), 1, `"facts.remot": is not a known column`},
		{rename("facts.remote", "facts.remot"), 1, "columns missing: facts.remote. An import replaces the whole listing"},
		{rename("visibility", "id"), 1, "id: is given twice"},
		{rename("curation.notes", "id"), 1, "curation: needs both columns"},
		{func(header, row []string) ([]string, []string) { return header, row[1:] }, 2,
			fmt.Sprintf("has %d cells, and the header names %d columns", columns-1, columns)},
		{func(header, row []string) ([]string, []string) { return []string{strings.Join(header, ";")}, row }, 1,
			"must separate columns by commas"},
	} {
		file := sheet(t, c.edit)
		f, rejected := fromCSV(t, file)
		rejected = append(rejected, f.Rejected...)
		require.NotEmpty(t, rejected, c.problem)
		require.Equal(t, c.line, rejected[0].Line, c.problem)
		require.True(t, slices.ContainsFunc(rejected[0].Problems,
			func(p api.Problem) bool { return strings.HasPrefix(p.String(), c.problem) }),
			"want %q, got %q", c.problem, rejected[0].Problems)
		require.Empty(t, f.Lines)
	}
	for file, problem := range map[string]string{
		"sep=,\nid,company.name\n": `must have the names of the columns, as listings export --format csv writes them; it ` +
			`begins with "sep="`,
		"id,category\ra,sell\r": "the lines of the file end with carriage returns alone: save it with line feeds, in " +
			"a spreadsheet as CSV UTF-8",
		"": "the file is empty", "\n\n": "the file has only spaces and line breaks",
		"\ufeff":                    "the file has only spaces and line breaks",
		"i\x00d\x00":                "the file is in UTF-16 or UTF-32: save it as UTF-8",
		string(listingfile.Example): "the file is JSON, and its name or format says CSV: let its name end in .jsonl",
	} {
		f, rejected := fromCSV(t, file)
		require.Equal(t, []api.RejectedLine{{Line: 1, Problems: apitest.Problems(problem)}}, rejected)
		require.Empty(t, f.Rejected)
	}

	// Problems of a row with several lines are reported at its first line.
	whole := sheet(t, cell("overview", "One\ntwo\n\nthree"))
	header, row, _ := strings.Cut(whole, "\n")
	f, rejected := fromCSV(t, header+"\n"+row+strings.Replace(row, "online", "x", 1)+strings.Replace(row,
		"maple-transcripts,", `ma"ple,`, 1)+row)
	require.Equal(t, []int{6, 10}, []int{f.Rejected[0].Line, rejected[0].Line})
	require.Contains(t, rejected[0].Problems[0].String(), "is not CSV: ")
}

func TestToCSVRejectsTextThatItCannotKeep(t *testing.T) {
	for _, line := range []string{`{"id":"a","summary":"\ud83d"}`, "{\"id\":\"a\",\"summary\":\"\xff\"}",
		`{"id":"a","id":"b"}`} {
		require.Error(t, listingfile.ToCSV(strings.NewReader(line), io.Discard), line)
	}
}

func TestFromCSVReturnsReadError(t *testing.T) {
	broken := errors.New("broken")
	var out bytes.Buffer
	_, err := listingfile.FromCSV(iotest.ErrReader(broken), &out)
	require.ErrorIs(t, err, broken)
	require.ErrorIs(t, listingfile.ToCSV(iotest.ErrReader(broken), &out), broken)
	require.Error(t, listingfile.ToCSV(strings.NewReader("{"), &out))
}

func FuzzCSV(f *testing.F) {
	var table bytes.Buffer
	require.NoError(f, listingfile.ToCSV(bytes.NewReader(listingfile.Example), &table))
	f.Add(table.String())
	f.Add("id,\"a\n")
	f.Fuzz(func(t *testing.T, file string) {
		var out bytes.Buffer
		_, err := listingfile.FromCSV(strings.NewReader(file), &out)
		require.NoError(t, err)
		read(t, out.String())
	})
}
