package pages

import (
	"embed"
	"html/template"
	"io/fs"
	"strings"
	"time"

	"opportunity.internal/services/authquota/internal/chart"
)

//go:embed templates/*.html
var sources embed.FS

// parse returns one template set per page: the layout, the shared blocks and the page itself.
func (s *Site) parse() (map[string]*template.Template, error) {
	layout, err := template.New("layout.html").Funcs(template.FuncMap{
		"asset": s.asset, "instant": instant, "day": day, "count": chart.Count, "class": chart.Class, "public": func() string { return s.PublicURL },
		"operator": s.operator,
	}).ParseFS(sources, "templates/layout.html", "templates/blocks.html")
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(sources, "templates/*.html")
	if err != nil {
		return nil, err
	}
	pages := map[string]*template.Template{}
	for _, name := range names {
		page := strings.TrimSuffix(strings.TrimPrefix(name, "templates/"), ".html")
		if page == "layout" || page == "blocks" { // not pages
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

// operator returns how pages refer to the operator, with the contact if configured.
func (s *Site) operator() template.HTML {
	const who = "the operator of the service"
	if s.Contact == "" {
		return who
	}
	address := s.Contact
	if !strings.HasPrefix(address, "https://") {
		address = "mailto:" + address
	}
	return template.HTML(who + ` (<a href="` + template.HTMLEscapeString(address) + `">` + template.HTMLEscapeString(s.Contact) + `</a>)`) //nolint:gosec // validated at startup, and escaped
}

// instant formats a time; a script adds the local time.
func instant(t time.Time) template.HTML {
	t = t.UTC()
	return template.HTML(`<time datetime="` + t.Format(time.RFC3339) + `">` + t.Format("2 January 2006, 15:04") + ` UTC</time>`) //nolint:gosec // digits and month names
}

// day formats the UTC day of a time.
func day(t time.Time) template.HTML {
	t = t.UTC()
	return template.HTML(`<time datetime="` + t.Format(time.DateOnly) + `">` + t.Format("2 January 2006") + `</time>`) //nolint:gosec // digits and month names
}
