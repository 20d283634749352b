package desk

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"opportunity.internal/cmd/opportunity/internal/desk/listingform"
	"opportunity.internal/cmd/opportunity/internal/desk/reviewform"
	"opportunity.internal/cmd/opportunity/internal/desk/session"
	"opportunity.internal/cmd/opportunity/internal/verbs"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/pages"
)

//go:embed templates/*.html
var sources embed.FS

// view is the response to a request: a page, a redirect or a file.
type view struct {
	Template string // name of a file in templates/, without extension
	Title    string
	Data     any
	Status   int       // 0 means 200, or 422 if there are Errors
	Errors   []problem // of the submitted form; the page shows the form again with its input
	Redirect string    // 303 to a page of the desk
	Notice   *notice   // shown on this page, or after Redirect on the next one

	Stream func(io.Writer) error // a file to save
	Type   string                // its media type
	Name   string                // its name; empty if it is for the script
}

// problem is a mistake in a form. Field is the id of the element to go to; empty for the whole form.
type problem struct{ Field, Message string }

// notice reports the result of the previous request.
type notice struct {
	Text string
	Undo *undo // offers to undo a review

	Withdraw string // id of a record that the person may withdraw
}

type undo struct{ ID, EventID string }

// shown is the data of the layout.
type shown struct {
	Title   string
	Notice  *notice
	Session session.Session // zero if not signed in
	Path    string
	Keys    bool // whether single keys act
	Errors  []problem
	Data    any
	Now     time.Time
}

// In reports whether the page is at one of the paths or below it.
func (p shown) In(paths ...string) bool {
	for _, at := range paths {
		if p.Path == at || strings.HasPrefix(p.Path, at+"/") {
			return true
		}
	}
	return false
}

// Frame returns the header and the footer of the page.
func (p shown) Frame() pages.Frame {
	shortcuts := pages.Link{Path: "/help", Label: "Keyboard shortcuts", Current: p.Path == "/help"}
	f := pages.Frame{Name: "Curation desk", Home: "/", Footer: []pages.Link{shortcuts}}
	if p.Session.ID == "" {
		return f
	}
	f.Links, f.SignOut, f.TabsLabel = []pages.Link{shortcuts}, "/sign-out", "Desk"
	f.Person = &pages.Link{Path: "/sessions", Label: p.Session.Name + " (" + p.Session.Role + ")"}
	for _, t := range tabs(p.Session.Role) {
		f.Tabs = append(f.Tabs, pages.Link{Path: t.Path, Label: t.Label, Current: p.In(t.Path)})
	}
	return f
}

// Wrong returns the problem of a field, or an empty string.
func (p shown) Wrong(field string) string {
	for _, e := range p.Errors {
		if e.Field == field {
			return e.Message
		}
	}
	return ""
}

// parse returns one template set per page: the layout, the blocks and the page itself.
func (d *Desk) parse() (map[string]*template.Template, error) {
	layout, err := pages.ParseFrame(template.New("layout.html").Funcs(template.FuncMap{
		"asset": d.asset, "instant": instant, "day": day, "compact": compact[json.RawMessage], "short": compact[string], "join": strings.Join, "add": func(a, b int) int { return a + b },
		"reason": verbs.DescribeReason, "label": reviewform.Label, "fragment": fragment, "finding": finding, "field": listingform.LabelOf, "fieldOf": newShownField,
		"host": host, "input": newInput, "sourceInput": newSourceInput, "usageChart": newShownChart,
		"units": func() []api.PayUnit { return payUnits }, "categories": func() []api.Category { return api.Categories },
		"whys": func() []choice { return whys }, "visibilities": func() []string { return []string{"private", "published", "withdrawn"} },
		"statuses": func() []api.VerificationStatus {
			return []api.VerificationStatus{api.Verified, api.Unverified, api.Stale, api.NeedsReview}
		},
		"percent": func(part, whole int) int { return min(100, 100*part/max(whole, 1)) },
	}))
	if err != nil {
		return nil, err
	}
	if _, err := layout.ParseFS(sources, "templates/layout.html", "templates/blocks.html"); err != nil {
		return nil, err
	}
	names, err := fs.Glob(sources, "templates/*.html")
	if err != nil {
		return nil, err
	}
	pages := map[string]*template.Template{}
	for _, name := range names {
		page := strings.TrimSuffix(path.Base(name), ".html")
		if page == "layout" || page == "blocks" {
			continue
		}
		t, err := layout.Clone()
		if err == nil {
			t, err = t.ParseFS(sources, name)
		}
		if err != nil {
			return nil, err
		}
		pages[page] = t
	}
	return pages, nil
}

// asset returns the path of a static file.
func (d *Desk) asset(name string) (string, error) {
	served, err := d.files.Name(name)
	return "/static/" + served, err
}

// write sends a view.
func (d *Desk) write(v *visit, response view) error {
	switch {
	case response.Redirect != "":
		if response.Notice != nil {
			d.sessions.Leave(v.Session.ID, response.Notice)
		}
		v.w.Header().Set("Location", response.Redirect)
		v.w.WriteHeader(http.StatusSeeOther)
		return nil
	case response.Template == "" && response.Status != 0: // for the script
		v.w.WriteHeader(response.Status)
		return nil
	case response.Stream != nil:
		v.w.Header().Set("Content-Type", response.Type)
		if response.Name != "" {
			v.w.Header().Set("Content-Disposition", `attachment; filename="`+response.Name+`"`)
		}
		if err := response.Stream(v.w); err != nil {
			panic(http.ErrAbortHandler) // a partial file must not look complete
		}
		return nil
	}
	status := response.Status
	switch {
	case status == 0 && len(response.Errors) > 0:
		status = http.StatusUnprocessableEntity
	case status == 0:
		status = http.StatusOK
	}
	body, err := d.render(v, response)
	if err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	v.w.WriteHeader(status)
	if v.Method != http.MethodHead {
		_, _ = v.w.Write(body)
	}
	return nil
}

func (d *Desk) render(v *visit, response view) ([]byte, error) {
	t := d.templates[response.Template]
	if t == nil {
		return nil, fmt.Errorf("unknown page template %q", response.Template)
	}
	if response.Notice == nil && v.Session.ID != "" {
		response.Notice, _ = d.sessions.Notice(v.Session.ID).(*notice)
	}
	var b bytes.Buffer
	err := t.ExecuteTemplate(&b, "layout.html", shown{
		Title: response.Title, Notice: response.Notice, Session: v.Session, Path: v.URL.Path, Keys: v.cookie(keysCookie) != "off",
		Errors: response.Errors, Data: response.Data, Now: v.now,
	})
	return b.Bytes(), err
}

// instant formats a time; a script adds the local time.
func instant(at any) template.HTML {
	return formatted(at, time.RFC3339, "2 Jan 2006, 15:04 UTC")
}

// day formats the UTC day of a time.
func day(at any) template.HTML {
	return formatted(at, time.DateOnly, "2 Jan 2006")
}

// formatted formats a time.Time or *time.Time for machines and people.
func formatted(at any, machine, people string) template.HTML {
	t, ok := at.(time.Time)
	if p, is := at.(*time.Time); is && p != nil {
		t, ok = *p, true
	}
	if !ok || t.IsZero() {
		return "never"
	}
	t = t.UTC()
	return template.HTML(`<time datetime="` + t.Format(machine) + `">` + t.Format(people) + `</time>`) //nolint:gosec // digits and month names
}

// compact shortens a text or a JSON value.
func compact[T ~string | ~[]byte](value T) string {
	const most = 200
	text := []rune(string(value))
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(text)
}
