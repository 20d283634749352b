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
	"opportunity.internal/cmd/opportunity/internal/desk/reviewform"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/pages"
)

// showReview shows the form of a review. It takes the lease and restores the draft.
func (d *Desk) showReview(v *visit) (view, error) {
	id, opinion := v.PathValue("id"), v.URL.Query().Get("opinion")
	lease, _, err := v.client.Lease(v.Context(), id, false)
	if err != nil {
		return view{}, err
	}
	sheet, err := d.sheet(v, id, opinion)
	if err != nil {
		return view{}, err
	}
	page := reviewPage{Sheet: sheet, Form: reviewform.New(sheet, opinion), Publish: publishes(v), open: d.opener(sheet)}
	if lease.Holder != v.Session.Name {
		page.Blocked = &lease
	}
	var stored url.Values
	if sheet.Draft != nil && json.Unmarshal(sheet.Draft.Content, &stored) == nil {
		if form, err := reviewform.Parse(stored); err == nil && form.Opinion() == opinion {
			page.Form, page.SavedAt = form, sheet.Draft.SavedAt
			page.reopen()
		}
	}
	return page.view(nil), nil
}

// sheet returns a review sheet; for a second opinion, without the first one.
func (d *Desk) sheet(v *visit, id, opinion string) (api.ReviewSheet, error) {
	if opinion != "" {
		sheet, _, err := adminapi.Get[api.ReviewSheet](v.Context(), v.client, sheetPath(id), "secondOpinionOf", opinion)
		return sheet, err
	}
	sheet, _, err := v.client.Sheet(v.Context(), id)
	return sheet, err
}

func sheetPath(id string) string { return adminapi.Path("reviews", "records", id) }

// submitReview records a review and opens the next one. Whatever prevents that, the form keeps its
// input.
func (d *Desk) submitReview(v *visit) (view, error) {
	id := v.PathValue("id")
	form, err := reviewform.Parse(v.PostForm)
	if err != nil {
		return view{Template: "error", Title: "This form cannot be read", Status: http.StatusBadRequest,
			Data: "Open the record again."}, nil
	}
	sheet, err := d.sheet(v, id, form.Opinion())
	if err != nil {
		return view{}, err
	}
	page := reviewPage{Sheet: sheet, Form: form, Publish: publishes(v), open: d.opener(sheet)}
	review, problems := form.Review()
	if len(problems) > 0 {
		page.reopen()
		return page.view(problems), nil
	}
	var uncompared []string
	if added := form.Added(); len(added) > 0 {
		found, _, err := adminapi.Send[api.QuoteFindings](v.Context(), v.client, http.MethodPost, "/reviews/quotes",
			api.QuoteSearch{Quotes: added})
		if err != nil {
			return view{}, err
		}
		if problems, uncompared = form.Compare(found.Readings); len(problems) > 0 {
			page.reopen()
			return page.view(problems), nil
		}
	}
	report, _, err := v.client.Review(v.Context(), id, api.ReviewSubmission{
		Review: review, SecondOpinionOf: form.Opinion(), SameTexts: form.SameTexts(), Changes: form.Changes(),
	})
	switch {
	case err != nil:
		return view{}, err
	case len(report.Texts) > 0:
		page.Texts = report.Texts
		page.reopen()
		for _, t := range report.Texts {
			problems = append(problems, reviewform.Problem{Field: reviewform.SameTexts(t.Fact),
				Message: reviewform.Label(t.Fact) +
					": choose whether your words mean the same as those of the first review, then submit again"})
		}
		return page.view(problems), nil
	case len(report.Newer) > 0:
		if page.Sheet, err = d.sheet(v, id, form.Opinion()); err != nil {
			return view{}, err
		}
		page.Newer = report.Newer
		page.reopen()
		response := page.view(nil)
		response.Status = http.StatusConflict
		return response, nil
	case !report.Applied:
		var all api.Problems
		for _, r := range report.Rejected {
			all = append(all, r.Problems...)
		}
		page.reopen()
		return page.view(reviewform.Explain(all, review)), nil
	}
	done := &notice{Text: "Review of " + sheet.Record.Company.Name + " recorded: " + string(report.Outcome) + "."}
	done.Undo = &undo{id, report.EventID}
	if form.Opinion() != "" && len(report.Disagree) == 0 {
		done = &notice{Text: "Your opinion on " + sheet.Record.Company.Name + " agrees with the first review."}
	}
	if review.Evidence.Closed == api.ClosedEnded && sheet.Visibility == "published" {
		done.Text += " It stays public until a publisher withdraws it."
	}
	if len(uncompared) > 0 {
		done.Text += " A quote was not compared with its page, because no text of the page is stored: " +
			strings.Join(uncompared, ", ") + "."
	}
	if len(report.Disagree) > 0 {
		labels := make([]string, len(report.Disagree))
		for i, name := range report.Disagree {
			labels[i] = reviewform.Label(name)
		}
		done.Text += " Your opinion differs in: " + strings.Join(labels, ", ") + "."
	}
	switch {
	case sheet.Visibility != "private":
		return d.nextReview(v, done)
	case v.PostFormValue("then") == "publish" && report.Outcome == api.OutcomeVerified:
		v.done = done
		return view{Redirect: recordPath(id) + "/publish?lane=on"}, nil
	}
	return d.nextCandidate(v, done)
}

// summarize returns a sentence about what the input would record, for the script.
func (d *Desk) summarize(v *visit) (view, error) {
	form, err := reviewform.Parse(v.PostForm)
	if err != nil {
		return view{Status: http.StatusBadRequest}, nil //nolint:nilerr // the page keeps what it shows
	}
	return view{Type: "text/plain; charset=utf-8", Stream: func(out io.Writer) error {
		_, err := io.WriteString(out, form.Summary())
		return err
	}}, nil
}

// saveDraft stores the input. The script saves without leaving the page.
func (d *Desk) saveDraft(v *visit) (view, error) {
	form, err := reviewform.Parse(v.PostForm)
	if err != nil {
		return view{Template: "error", Title: "This form cannot be read", Status: http.StatusBadRequest,
			Data: "Open the record again."}, nil
	}
	content, err := json.Marshal(form.Values)
	if err != nil {
		return view{}, err
	}
	if _, _, err := v.client.SaveDraft(v.Context(), v.PathValue("id"), content); err != nil {
		return view{}, err
	}
	if scripted(v) {
		return view{Status: http.StatusNoContent}, nil
	}
	return view{Redirect: reviewPath(v.PathValue("id"), form.Opinion()), Notice: "Your draft is saved."}, nil
}

// scripted reports whether the page's script sent the request, which needs no page in return.
func scripted(v *visit) bool { return v.Header.Get("Sec-Fetch-Dest") == "empty" }

func reviewPath(id, opinion string) string {
	path := "/reviews/" + url.PathEscape(id)
	if opinion != "" {
		path += "?opinion=" + url.QueryEscape(opinion)
	}
	return path
}

func (d *Desk) discardDraft(v *visit) (view, error) {
	id := v.PathValue("id")
	if _, _, err := adminapi.Send[any](v.Context(), v.client, http.MethodDelete, sheetPath(id)+"/draft", nil); err != nil {
		return view{}, err
	}
	return view{Redirect: reviewPath(id, ""), Notice: "Your draft is deleted."}, nil
}

// renewLease extends the lease while the form is open.
func (d *Desk) renewLease(v *visit) (view, error) {
	lease, _, err := v.client.Lease(v.Context(), v.PathValue("id"), false)
	if err == nil && lease.Holder != v.Session.Name {
		return view{Status: http.StatusConflict}, nil
	}
	return view{Status: http.StatusNoContent}, err
}

func (d *Desk) takeOver(v *visit) (view, error) {
	id := v.PathValue("id")
	if _, _, err := v.client.Lease(v.Context(), id, true); err != nil {
		return view{}, err
	}
	return view{Redirect: reviewPath(id, ""), Notice: "The record is yours for 15 minutes."}, nil
}

// undo undoes the person's own latest review.
func (d *Desk) undo(v *visit) (view, error) {
	id := v.PathValue("id")
	report, _, err := adminapi.Send[api.ReviewReport](
		v.Context(), v.client, http.MethodPost, sheetPath(id)+"/undo", api.UndoRequest{EventID: v.PostFormValue("event")})
	if err != nil {
		return view{}, err
	}
	text := "Your review is undone: the record is as it was before."
	if !report.Applied {
		text = "Nothing was undone: something was recorded after your review."
	}
	return view{Redirect: reviewPath(id, ""), Notice: text}, nil
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
	_, _, err := adminapi.Send[any](v.Context(), v.client, http.MethodPut, sheetPath(v.PathValue("id"))+"/opened", page)
	if err != nil {
		d.Log.LogAttrs(v.Context(), slog.LevelWarn, "opened source not recorded", slog.String("error", err.Error()))
	}
	return view{LeaveTo: to}, nil
}

// reviewPage is the data of the review page.
type reviewPage struct {
	Sheet   api.ReviewSheet
	Form    reviewform.Form
	Blocked *api.Lease          // of another person
	SavedAt time.Time           // of the draft in the form; zero if there is none
	Newer   []api.RecordedEvent // recorded since the form was opened
	Publish bool                // whether the role can publish
	Texts   []api.ComparedTexts // that a second opinion has in other words

	open   func(page string) string // see opener
	before *api.Facts               // as the form had them when they changed
}

// Lane reports whether the record can be published after this review.
func (p *reviewPage) Lane() bool { return p.Publish && p.Sheet.Visibility == "private" && !p.Opinion() }

// reopen updates the form for the sheet if it is one of an older sheet.
func (p *reviewPage) reopen() {
	if p.Form.Seen() != p.Sheet.LastEventID {
		before := p.Form.Base
		p.before = &before
		p.Form.Rebase(p.Sheet)
		if p.Newer == nil {
			p.Newer = p.Sheet.Events[:min(len(p.Sheet.Events), 1)]
		}
	}
}

func (p *reviewPage) view(problems []reviewform.Problem) view {
	response := view{Template: "review", Title: "Review " + p.Sheet.Record.Company.Name, Data: p}
	for _, wrong := range problems {
		response.Errors = append(response.Errors, pages.FormError(wrong))
	}
	return response
}
