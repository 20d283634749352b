package forms_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/cmd/opportunity/internal/desk/forms"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/pkg/pages"
)

// example is the line of the example file, which uses every field.
func example() json.RawMessage {
	return bytes.Split(bytes.TrimSpace(listingfile.Example), []byte("\n"))[1]
}

var newlines = strings.NewReplacer("\r\n", "\r\n", "\n", "\r\n")

// input returns what a browser submits for the form without changes.
func input(f forms.Edit) url.Values {
	v := url.Values{"base": {f.Base()}}
	each(f.Fields(), func(field forms.Field) { v.Set(field.Path, newlines.Replace(field.Value())) })
	return v
}

// each calls do for each field with an input.
func each(fields []forms.Field, do func(forms.Field)) {
	for _, f := range fields {
		if len(f.Fields) > 0 {
			each(f.Fields, do)
			continue
		}
		do(f)
	}
}

func form(t *testing.T, listing string) forms.Edit {
	t.Helper()
	f, err := forms.NewEdit(json.RawMessage(listing))
	require.NoError(t, err)
	return f
}

func parsed(t *testing.T, v url.Values) (forms.Edit, []pages.FormError) {
	t.Helper()
	f, problems, err := forms.ParseEdit(v)
	require.NoError(t, err)
	return f, problems
}

// line returns a valid line of a listings file.
func line(t *testing.T, listing json.RawMessage) listingfile.Line {
	t.Helper()
	file, err := listingfile.Read(bytes.NewReader(listing), time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC), 1)
	require.NoError(t, err)
	require.Empty(t, file.Rejected, string(listing))
	return file.Lines[0]
}

const bare = `{"id":"x","company":{"name":"X","website":"https://x.example"},"applicationUrl":"https://x.example",` +
	`"category":"online","subcategory":null,"summary":"S","overview":"","startingCost":"","workModel":"","publishedAt":null,"sources":[]}`

func TestUntouchedFormChangesNothing(t *testing.T) {
	for _, listing := range []string{
		string(example()), bare,
		strings.NewReplacer(`"S"`, `"S\r\nT"`, `"startingCost":""`, `"startingCost":"two\nlines"`, `"workModel":""`,
			`"workModel":" spaces "`, `"sources":[]`, `"sources":[],"visibility":"private"`).Replace(bare),
		strings.Replace(bare, `"sources":[]`, `"sources":[],"facts":{"remote":null,"languages":["a\nb"]},"companyProfile":`+
			`{"bio":null,"foundedYear":null,"experienceSources":[],"evidenceAssessment":null}`, 1),
	} {
		got, problems := parsed(t, input(form(t, listing)))
		require.Empty(t, problems)
		var before, after listingfile.Line // read without the rules of a file: a stored value can be older than they are
		require.NoError(t, json.Unmarshal([]byte(listing), &before))
		require.NoError(t, json.Unmarshal(got.Listing(), &after))
		require.Equal(t, before, after)
	}
}

// Each field of the form has a label and changes exactly its own value.
func TestEachFieldCanBeEdited(t *testing.T) {
	f := form(t, string(example()))
	fields := 0
	each(f.Fields(), func(field forms.Field) {
		fields++
		require.NotEmpty(t, field.Label, field.Path)
		require.NotEqual(t, field.Path, forms.LabelOf(field.Path))
		changed := "changed"
		switch {
		case len(field.Options) > 0:
			changed = field.Options[0].Value
			if changed == field.Value() {
				changed = field.Options[1].Value
			}
		case field.Kind == forms.Number:
			changed = "2" + field.Value()
		}
		v := input(f)
		v.Set(field.Path, changed)
		got, problems := parsed(t, v)
		require.Empty(t, problems, field.Path)
		require.Contains(t, string(got.Listing()), changed, field.Path)
		require.NotEqual(t, f.Base(), string(got.Listing()), field.Path)
		v.Set(field.Path, field.Value())
		again, _ := parsed(t, v)
		require.Equal(t, line(t, example()), line(t, again.Listing()), field.Path)
	})
	require.Greater(t, fields, 15)
	// Every column of a CSV file has a label. Those that the form lacks are covered by a review.
	for _, column := range listingfile.Columns() {
		if column != "id" && column != "visibility" {
			require.NotEqual(t, column, forms.LabelOf(column))
		}
	}
}

func TestEntriesAreAddedAndRemoved(t *testing.T) {
	f := form(t, string(example()))
	v := input(f)
	v.Set("sources.0.url", "")
	v.Set("sources.0.checkedAt", "")
	v.Set("sources.1.url", " https://new.example ")
	v.Set("curation.notes", "")
	v.Set("curation.contact", "")
	got, problems := parsed(t, v)
	require.Empty(t, problems)
	l := line(t, got.Listing())
	require.Equal(t, []api.Source{{URL: "https://new.example"}}, l.Sources)
	require.Equal(t, &api.Curation{}, l.Curation, "without a curation, an edit keeps the stored notes")

	for _, name := range []string{"bio.text", "bio.sourceUrl", "bio.checkedAt"} {
		v.Set("companyProfile."+name, "")
	}
	got, _ = parsed(t, v)
	require.Nil(t, line(t, got.Listing()).CompanyProfile.Bio)
}

func TestNewGroupsNeedNoOtherField(t *testing.T) {
	v := input(form(t, bare))
	v.Set("facts.remote", "true") // not on the form
	v.Set("curation.notes", "Calls only.")
	got, _ := parsed(t, v)
	l := line(t, got.Listing())
	require.Nil(t, l.Facts)
	require.Equal(t, "Calls only.", l.Curation.Notes)
	require.Nil(t, l.CompanyProfile)
}

func TestInvalidNumberIsReportedAndStaysInTheForm(t *testing.T) {
	v := input(form(t, string(example())))
	v.Set("companyProfile.foundedYear.value", "long ago")
	v.Set("companyProfile.experienceSources.0.rating.value", "1,75")
	got, problems := parsed(t, v)
	require.Equal(t, []pages.FormError{{Field: "companyProfile.foundedYear.value",
		Message: "Company profile, Founded, Year: \"long ago\" is not a number: write only digits and one decimal point, such as 45000 or 17.50"}}, problems)
	require.Equal(t, "long ago", input(got).Get("companyProfile.foundedYear.value"))
	require.Equal(t, "1.75", input(got).Get("companyProfile.experienceSources.0.rating.value"))
}

func TestRebaseKeepsTheInputAndTakesOverOtherChanges(t *testing.T) {
	v := input(form(t, string(example())))
	v.Set("summary", "Mine.")
	v.Set("subcategory", "mine")
	v.Set("overview", "Same")
	f, _ := parsed(t, v)
	current := strings.NewReplacer(`"summary":"Pays freelancers to transcribe recorded interviews."`,
		`"summary":"Theirs."`,
		`"workModel":"Independent contractor"`, `"workModel":"Employee"`,
		`"overview":"Contributors choose recordings from a queue and are paid for each audio minute."`,
		`"overview":"Same"`).Replace(string(example()))
	differences, err := f.Rebase(json.RawMessage(current))
	require.NoError(t, err)
	got := map[string]string{}
	for _, d := range differences {
		got[d.Path] = fmt.Sprintf("%s %s", d.Now, d.Yours)
	}
	require.Equal(t, map[string]string{"summary": `"Theirs." "Mine."`, "workModel": `"Employee" `, "overview": `"Same" `},
		got)
	l := line(t, f.Listing())
	require.Equal(t, "Mine.", l.Summary)
	require.Equal(t, "mine", *l.Subcategory)
	require.Equal(t, "Employee", l.WorkModel)
	require.Equal(t, "Same", l.Overview)
	again, _ := parsed(t, input(f))
	require.Equal(t, l, line(t, again.Listing()), "the form shows the merged listing")
}

func TestLabels(t *testing.T) {
	for path, want := range map[string]string{
		"sources[1].url": "Source 2, URL", "facts.pay.minimum": "Facts of the listing, Pay, From", "summary": "Summary",
		"unknown[0]": "unknown[0]", "": "", "company.website": "Website",
		"facts.countryEligibility": "Facts of the listing, Countries and regions",
		"facts.languages[2]":       "Facts of the listing, Languages 3", "0": "0",
	} {
		require.Equal(t, want, forms.LabelOf(path), path)
	}
	require.Equal(t, "sources.1.url", forms.PathOf("sources[1].url"))
}
