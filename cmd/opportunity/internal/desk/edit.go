package desk

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"opportunity.internal/cmd/opportunity/internal/desk/listingform"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/pages"
)

// editPage is the data of the page on which a listing is edited.
type editPage struct {
	ID, Company string
	Version     string // of the listing that the form is based on
	Form        listingform.Form
	Outcome     *outcome // of saving; nil before the first look at it
	Newer       []listingform.Difference
	NewerBy     []api.ListingAct // who changed the listing in the meantime
}

// outcome describes the effects of an edit.
type outcome struct {
	Changes     []api.FieldChange
	Consequence string
}

// shownField is a field with its page, which has the problems.
type shownField struct {
	listingform.Field

	Page shown
}

func newShownField(page shown, f listingform.Field) shownField { return shownField{f, page} }

func (d *Desk) showEdit(v *visit) (view, error) {
	detail, _, err := v.client.Listing(v.Context(), v.PathValue("id"))
	if err != nil {
		return view{}, err
	}
	page := newEditPage(detail)
	if page.Form, err = listingform.New(detail.Listing); err != nil {
		return view{}, err
	}
	return page.view(nil), nil
}

func newEditPage(detail api.ListingDetail) editPage {
	return editPage{ID: detail.Record.ID, Company: detail.Record.Company.Name, Version: detail.Version}
}

func (p editPage) view(problems []listingform.Problem) view {
	response := view{Template: "edit", Title: "Edit " + p.Company, Data: p}
	for _, wrong := range problems {
		response.Errors = append(response.Errors, pages.FormError(wrong))
	}
	return response
}

// edit shows what saving the input does, and saves it if the person has seen that. Whatever
// prevents it, the form keeps its input.
func (d *Desk) edit(v *visit) (view, error) {
	id, version := v.PathValue("id"), v.PostFormValue("version")
	form, problems, err := listingform.Parse(v.PostForm)
	if err != nil {
		return view{Template: "error", Title: "This form cannot be read", Status: http.StatusBadRequest,
			Data: "Open the record again."}, nil
	}
	page := editPage{ID: id, Company: id, Version: version, Form: form}
	if len(problems) > 0 {
		return page.view(problems), nil
	}
	dry := v.PostFormValue("save") != form.ID()
	report, _, err := v.client.Edit(v.Context(), id, version, form.Listing(), dry)
	switch {
	case err != nil:
		return view{}, err
	case report.Applied:
		return view{Redirect: recordPath(id), Notice: saved(report.Fields)}, nil
	case len(report.Problems) > 0:
		return page.view(explain(report.Problems)), nil
	case report.Current == nil:
		return page.view([]listingform.Problem{{Message: "The listing was not saved. Try again"}}), nil
	case report.Current.Version != version:
		return page.outdated(*report.Current)
	}
	page.Company = report.Current.Record.Company.Name
	if len(report.Fields) == 0 {
		return page.view([]listingform.Problem{{Message: "Nothing is changed"}}), nil
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
		names[i] = listingform.LabelOf(f)
	}
	return "Saved: " + strings.Join(names, "; ") + "."
}

// explain converts problems of a listing to problems of the form.
func explain(all api.Problems) (problems []listingform.Problem) {
	for _, p := range all {
		wrong := listingform.Problem{Message: p.Message}
		if p.Path != "" {
			wrong = listingform.Problem{Field: listingform.PathOf(p.Path), Message: listingform.LabelOf(p.Path) + ": " +
				p.Message}
		}
		problems = append(problems, wrong)
	}
	return problems
}

// outdated shows the form for a newer version of the listing, with the changes that it did not
// know.
func (p editPage) outdated(current api.ListingDetail) (view, error) {
	page := newEditPage(current)
	page.Form = p.Form
	var err error
	if page.Newer, err = page.Form.Rebase(current.Listing); err != nil {
		return view{}, err
	}
	page.NewerBy = current.Changes[:min(len(current.Changes), 1)]
	response := page.view(nil)
	response.Status = http.StatusConflict
	return response, nil
}

// outcomeOf describes what saving an edit does, from its dry run. No field of the form puts a
// review in doubt: a review changes those.
func outcomeOf(report api.EditReport) *outcome {
	private := !slices.ContainsFunc(report.Fields, func(field string) bool { return field != "curation" })
	var current listing
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
