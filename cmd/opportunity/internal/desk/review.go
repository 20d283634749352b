package desk

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/desk/forms"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/pages"
)

// reviewPage is the data of the review page.
type reviewPage struct {
	Sheet   api.ReviewSheet
	Form    forms.Review
	Blocked *api.Lease          // of another person
	SavedAt time.Time           // of the draft in the form; zero if there is none
	Newer   []api.RecordedEvent // recorded since the form was opened
	Publish bool                // whether the role can publish
	Texts   []api.ComparedTexts // that a second opinion has in other words

	open     func(page string) string // see opener
	before   *api.Facts               // as the form had them when they changed
	problems []pages.FormError
}

// reviewPage returns the page of a record, without its form. opinion is the id of the review that a
// second opinion is about, or empty.
func (d *Desk) reviewPage(v *visit, opinion string) (*reviewPage, error) {
	sheet, err := sheet(v, v.PathValue("id"), opinion)
	return &reviewPage{Sheet: sheet, Publish: publishes(v), open: d.opener(sheet)}, err
}

// view shows the form with its problems. If it is one of an older sheet, it is updated.
func (p *reviewPage) view(problems []pages.FormError) view {
	p.problems = problems
	if p.Form.Seen() != p.Sheet.LastEventID {
		before := p.Form.Base
		p.before = &before
		p.Form.Rebase(p.Sheet)
		if p.Newer == nil {
			p.Newer = p.Sheet.Events[:min(len(p.Sheet.Events), 1)]
		}
	}
	return view{Template: "review", Title: "Review " + p.Sheet.Record.Company.Name, Data: p, Errors: problems}
}

// showReview shows the form of a review. It takes the lease and restores the draft.
func (d *Desk) showReview(v *visit) (view, error) {
	lease, err := takeLease(v, v.PathValue("id"), false)
	if err != nil {
		return view{}, err
	}
	opinion := v.URL.Query().Get("opinion")
	page, err := d.reviewPage(v, opinion)
	if err != nil {
		return view{}, err
	}
	page.Form = forms.NewReview(page.Sheet, opinion)
	if lease.Holder != v.Session.Name {
		page.Blocked = &lease
	}
	var stored url.Values
	if draft := page.Sheet.Draft; draft != nil && json.Unmarshal(draft.Content, &stored) == nil {
		if form, err := forms.ParseReview(stored); err == nil && form.Opinion() == opinion {
			page.Form, page.SavedAt = form, draft.SavedAt
		}
	}
	return page.view(nil), nil
}

// sheet returns a review sheet; for a second opinion, without the first one.
func sheet(v *visit, id, opinion string) (api.ReviewSheet, error) {
	return call(v, adminapi.GetSheet, adminapi.Input{ID: id, Query: adminapi.Query("secondOpinionOf", opinion)})
}

// takeLease takes or renews the lease of a record. It returns the lease of another holder, unless
// takeOver is set.
func takeLease(v *visit, id string, takeOver bool) (api.Lease, error) {
	return call(v, adminapi.TakeLease, adminapi.Input{ID: id, Body: api.LeaseRequest{TakeOver: takeOver}})
}

// submitReview records a review and opens the next one. Whatever prevents that, the form keeps its
// input.
func (d *Desk) submitReview(v *visit) (view, error) {
	id := v.PathValue("id")
	form, err := forms.ParseReview(v.PostForm)
	if err != nil {
		return view{}, err
	}
	page, err := d.reviewPage(v, form.Opinion())
	if err != nil {
		return view{}, err
	}
	page.Form = form
	review, problems := form.Read()
	var uncompared []string
	if added := form.Added(); len(problems) == 0 && len(added) > 0 {
		found, err := call(v, adminapi.FindQuotes, adminapi.Input{Body: api.QuoteSearch{Quotes: added}})
		if err != nil {
			return view{}, err
		}
		problems, uncompared = form.Compare(found.Readings)
	}
	if len(problems) > 0 {
		return page.view(problems), nil
	}
	report, err := call(v, adminapi.SubmitReview, adminapi.Input{ID: id, Body: api.ReviewSubmission{
		Review: review, SecondOpinionOf: form.Opinion(), SameTexts: form.TextsAreSame(), Changes: form.Changes(),
	}})
	switch {
	case err != nil:
		return view{}, err
	case len(report.Texts) > 0:
		page.Texts = report.Texts
		for _, t := range report.Texts {
			problems = append(problems, pages.FormError{Field: forms.SameTexts + t.Fact, Message: forms.FactLabel(t.Fact) +
				": choose whether your words mean the same as those of the first review, then submit again"})
		}
		return page.view(problems), nil
	case len(report.Newer) > 0:
		page.Newer = report.Newer
		page.Sheet, err = sheet(v, id, form.Opinion())
		response := page.view(nil)
		response.Status = http.StatusConflict
		return response, err
	case !report.Applied:
		for _, r := range report.Rejected {
			problems = append(problems, form.Explain(r.Problems, review)...)
		}
		return page.view(problems), nil
	}
	if form.Opinion() == "" || len(report.Disagree) > 0 {
		d.sessions.Keep(v.Session.ID, keptUndo, &undo{ID: id, EventID: report.EventID})
	}
	done := recorded(page, review, report, uncompared)
	switch {
	case page.Sheet.Visibility != "private":
		return goOn(v, done, next)
	case v.PostFormValue("then") == "publish" && report.Outcome == api.OutcomeVerified:
		return view{Redirect: recordPath(id) + "/publish?lane=on", Notice: done}, nil
	}
	return goOn(v, done, nextCandidate)
}

// recorded describes what became of a review that was recorded.
func recorded(page *reviewPage, review api.Review, report api.ReviewReport, uncompared []string) string {
	company := page.Sheet.Record.Company.Name
	text := "Review of " + company + " recorded: " + string(report.Outcome) + "."
	if page.Form.Opinion() != "" && len(report.Disagree) == 0 {
		text = "Your opinion on " + company + " agrees with the first review."
	}
	if review.Evidence.Closed == api.ClosedEnded && page.Sheet.Visibility == "published" {
		text += " It stays public until a publisher withdraws it."
	}
	if len(uncompared) > 0 {
		text += " A quote was not compared with its page, because no text of the page is stored: " +
			strings.Join(uncompared, ", ") + "."
	}
	if len(report.Disagree) > 0 {
		labels := make([]string, len(report.Disagree))
		for i, name := range report.Disagree {
			labels[i] = forms.FactLabel(name)
		}
		text += " Your opinion differs in: " + strings.Join(labels, ", ") + "."
	}
	return text
}

// summarize returns a sentence about what the input would record, for the script.
func (d *Desk) summarize(v *visit) (view, error) {
	form, err := forms.ParseReview(v.PostForm)
	return view{Type: "text/plain; charset=utf-8", Stream: func(out io.Writer) error {
		_, err := io.WriteString(out, form.Summary())
		return err
	}}, err
}

// saveDraft stores the input. The script saves without leaving the page, and needs no page in
// return.
func (d *Desk) saveDraft(v *visit) (view, error) {
	form, err := forms.ParseReview(v.PostForm)
	if err != nil {
		return view{}, err
	}
	if _, err := call(v, adminapi.SaveDraft, adminapi.Input{ID: v.PathValue("id"), Body: form.Values}); err != nil {
		return view{}, err
	}
	if v.Header.Get("Sec-Fetch-Dest") == "empty" {
		return view{Status: http.StatusNoContent}, nil
	}
	return view{Redirect: reviewPath(v.PathValue("id"), form.Opinion()), Notice: "Your draft is saved."}, nil
}

func reviewPath(id, opinion string) string {
	path := "/reviews/" + url.PathEscape(id)
	if opinion != "" {
		path += "?opinion=" + url.QueryEscape(opinion)
	}
	return path
}

func (d *Desk) discardDraft(v *visit) (view, error) {
	id := v.PathValue("id")
	_, err := call(v, adminapi.DeleteDraft, adminapi.Input{ID: id})
	return view{Redirect: reviewPath(id, ""), Notice: "Your draft is deleted."}, err
}

// renewLease extends the lease while the form is open.
func (d *Desk) renewLease(v *visit) (view, error) {
	lease, err := takeLease(v, v.PathValue("id"), false)
	if err == nil && lease.Holder != v.Session.Name {
		return view{Status: http.StatusConflict}, nil
	}
	return view{Status: http.StatusNoContent}, err
}

func (d *Desk) takeOver(v *visit) (view, error) {
	id := v.PathValue("id")
	_, err := takeLease(v, id, true)
	return view{Redirect: reviewPath(id, ""), Notice: "The record is yours for 15 minutes."}, err
}

// undo undoes the person's own latest review.
func (d *Desk) undo(v *visit) (view, error) {
	id := v.PathValue("id")
	report, err := call(v, adminapi.UndoReview,
		adminapi.Input{ID: id, Body: api.UndoRequest{EventID: v.PostFormValue("event")}})
	text := "Your review is undone: the record is as it was before."
	if !report.Applied {
		text = "Nothing was undone: something was recorded after your review."
	}
	return view{Redirect: reviewPath(id, ""), Notice: text}, err
}

// opener returns the address in the desk that records that the curator opens a page from the sheet,
// and then opens it. Only the desk can make one, so it leads to no other page.
func (d *Desk) opener(sheet api.ReviewSheet) func(page string) string {
	return func(page string) string {
		text, _ := json.Marshal(api.OpeningRequest{SourceURL: page, LastEventID: sheet.LastEventID}) // two texts
		return "/reviews/" + sheet.Record.ID + "/open?page=" + d.sessions.Seal(text)
	}
}

// openPage records that the curator opens a page, and opens it. If that cannot be recorded, the
// page opens anyway.
func (d *Desk) openPage(v *visit) (view, error) {
	var page api.OpeningRequest
	text, own := d.sessions.Unseal(v.FormValue("page"))
	if !own || json.Unmarshal(text, &page) != nil {
		return notFound(), nil
	}
	to := page.SourceURL
	page.SourceURL, _, _ = strings.Cut(to, ":~:text=")
	page.SourceURL = strings.TrimSuffix(page.SourceURL, "#")
	if _, err := call(v, adminapi.OpenSource, adminapi.Input{ID: v.PathValue("id"), Body: page}); err != nil {
		d.Log.LogAttrs(v.Context(), slog.LevelWarn, "opened source not recorded", slog.String("error", err.Error()))
	}
	return view{LeaveTo: to}, nil
}
