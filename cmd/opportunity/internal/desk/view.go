package desk

import (
	"embed"
	"encoding/json"
	"html/template"
	"strings"
	"time"

	"opportunity.internal/cmd/opportunity/internal/desk/forms"
	"opportunity.internal/cmd/opportunity/internal/verbs"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/pages"
)

//go:embed templates/*.html
var sources embed.FS

// view is the response to a request.
type view = pages.View

// undo is the notice of a review that was just recorded, which offers to undo it.
type undo struct{ Text, ID, EventID string }

// shown is the data of the layout.
type shown struct {
	pages.Page

	Undo    *undo
	Session session // zero if not signed in
	Keys    bool    // whether single keys act
}

// Frame returns the header and the footer of the page.
func (p shown) Frame() pages.Frame {
	shortcuts := pages.Link{Path: "/help", Label: "Keyboard shortcuts", Current: p.Path == "/help"}
	f := pages.Frame{
		Name: p.Site, Home: "/", Footer: []pages.Link{shortcuts}, Styles: []string{"desk.css"}, Scripts: []string{"time.js",
			"once.js"}, Keys: p.Keys,
	}
	if p.Session.ID == "" {
		return f
	}
	f.Scripts = append(f.Scripts, "desk.js")
	f.Links, f.SignOut, f.TabsLabel = []pages.Link{shortcuts}, "/sign-out", "Desk"
	f.Person = &pages.Link{Path: "/sessions", Label: p.Session.Name + " (" + p.Session.Role + ")"}
	for _, t := range tabs(p.Session.Role) {
		f.Tabs = append(f.Tabs, pages.Link{Path: t.Path, Label: t.Label, Current: p.In(t.Path)})
	}
	return f
}

// functions are those of the templates.
var functions = template.FuncMap{
	"instant": instant, "day": day, "compact": compact[json.RawMessage], "short": compact[string], "join": strings.Join,
	"add": func(a, b int) int { return a + b }, "reason": describeReason, "label": forms.FactLabel, "fragment": fragment,
	"shortURL": shortURL, "finding": finding, "field": forms.LabelOf,
	"fieldOf": func(page interface{ Wrong(string) string }, f forms.Field) shownField { return shownField{f, page} },
	"onEdit":  forms.Editable, "radios": newRadios, "lower": strings.ToLower,
	"categories": func() []api.Category { return api.Categories },
	"whys":       func() []forms.Option { return whys }, "visibilities": func() []string {
		return []string{"private",
			"published", "withdrawn"}
	},
	"statuses": func() []api.VerificationStatus {
		return []api.VerificationStatus{api.Verified, api.Unverified, api.Stale, api.NeedsReview}
	},
	"percent": func(part, whole int) int { return min(100, 100*part/max(whole, 1)) },
}

// describeReason describes why a record is due, with its time as an element.
func describeReason(r api.DueReason) template.HTML {
	const mark = "\x01"
	at := ""
	text := verbs.DescribeReason(r, func(t time.Time) string {
		at = string(instant(t))
		return mark
	})
	return template.HTML(strings.Replace(template.HTMLEscapeString(text), mark, at, 1)) //nolint:gosec // escaped
}

// instant formats a time; a script adds the local time.
func instant(at any) template.HTML {
	return formatted(at, time.RFC3339, "2 Jan 2006, 15:04 UTC")
}

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
	element := `<time datetime="` + t.Format(machine) + `">` + t.Format(people) + `</time>`
	return template.HTML(element) //nolint:gosec // digits and month names
}

func compact[T ~string | ~[]byte](value T) string {
	const most = 200
	text := []rune(string(value))
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(text)
}
