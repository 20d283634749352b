package desk

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/desk/forms"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/pages"
)

// editPage is the data of the page on which a listing is edited.
type editPage struct {
	ID, Company string
	Version     string // of the listing that the form is based on
	Form        forms.Edit
	Outcome     *outcome // of saving; nil before the first look at it
	Newer       []forms.Difference
	NewerBy     []api.ListingAct // who changed the listing in the meantime
}

// outcome describes the effects of an edit.
type outcome struct {
	Changes     []api.FieldChange
	Consequence string
}

// shownField is a field with the page that has its problem.
type shownField struct {
	forms.Field

	Page interface{ Wrong(field string) string }
}

func (d *Desk) showEdit(v *visit) (view, error) {
	detail, err := call(v, adminapi.GetListing, adminapi.Input{ID: v.PathValue("id")})
	if err != nil {
		return view{}, err
	}
	page := editPage{ID: detail.Record.ID, Company: detail.Record.Company.Name, Version: detail.Version}
	page.Form, err = forms.NewEdit(detail.Listing)
	return page.view(nil), err
}

func (p editPage) view(problems []pages.FormError) view {
	return view{Template: "edit", Title: "Edit " + p.Company, Data: p, Errors: problems}
}

// edit shows what saving the input does, and saves it if the person has seen that. Whatever
// prevents it, the form keeps its input.
func (d *Desk) edit(v *visit) (view, error) {
	id, version := v.PathValue("id"), v.PostFormValue("version")
	form, problems, err := forms.ParseEdit(v.PostForm)
	if err != nil {
		return view{}, err
	}
	page := editPage{ID: id, Company: id, Version: version, Form: form}
	if len(problems) > 0 {
		return page.view(problems), nil
	}
	in := adminapi.Input{ID: id, Version: version, Body: form.Listing()}
	if v.PostFormValue("save") != form.ID() {
		in.Query = adminapi.Query("dryRun", "true")
	}
	report, err := call(v, adminapi.EditListing, in)
	switch {
	case err != nil:
		return view{}, err
	case report.Applied:
		return view{Redirect: recordPath(id), Notice: saved(report.Fields)}, nil
	case len(report.Problems) > 0:
		return page.view(forms.Review{}.Explain(report.Problems, api.Review{})), nil
	case report.Current.Version != version:
		return page.outdated(*report.Current)
	}
	page.Company = report.Current.Record.Company.Name
	if len(report.Fields) == 0 {
		return page.view(nil).Wrong("", "Nothing is changed"), nil
	}
	page.Outcome = outcomeOf(report)
	return page.view(nil), nil
}

func saved(fields []string) string {
	if len(fields) == 0 {
		return "Nothing was changed."
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = forms.LabelOf(f)
	}
	return "Saved: " + strings.Join(names, "; ") + "."
}

// outdated shows the form for a newer version of the listing, with the changes that it did not
// know.
func (p editPage) outdated(current api.ListingDetail) (view, error) {
	var err error
	p.Company, p.Version = current.Record.Company.Name, current.Version
	p.Newer, err = p.Form.Rebase(current.Listing)
	p.NewerBy = current.Changes[:min(len(current.Changes), 1)]
	response := p.view(nil)
	response.Status = http.StatusConflict
	return response, err
}

// outcomeOf describes what saving an edit does, from its dry run. No field of the form puts a
// review in doubt: a review changes those.
func outcomeOf(report api.EditReport) *outcome {
	private := !slices.ContainsFunc(report.Fields, func(field string) bool { return field != "curation" })
	var current struct{ Visibility string }
	_ = json.Unmarshal(report.Current.Listing, &current) // the API encoded it
	o := &outcome{report.Change.Fields, "Consumers see the change from now on. The status of the record does not change."}
	switch {
	case private:
		o.Consequence = "Only curators see this: private notes never reach consumers."
	case current.Visibility != "published":
		o.Consequence = "Consumers do not see this record before it is published."
	}
	return o
}
