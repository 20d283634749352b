package site

import (
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"strings"
	"time"

	"opportunity.internal/pkg/assets"
	"opportunity.internal/services/authquota/internal/usage/chart"
)

var (
	//go:embed layout
	layoutFS embed.FS
	//go:embed templates
	templates embed.FS // pages that belong to no feature
)

// layout returns the templates that every page includes: the layout and the shared blocks.
func (s *Site) layout() (*template.Template, error) {
	t, err := assets.ParseFrame(template.New("layout.html").Funcs(template.FuncMap{
		"asset": s.asset, "instant": instant, "day": day, "count": chart.Count, "class": chart.Class, "public": func() string { return s.PublicURL },
		"operator": s.operator,
	}))
	if err != nil {
		return nil, err
	}
	return t.ParseFS(layoutFS, "layout/*.html")
}

// parsePages adds one template set per page to pages, by its name: the layout and the page's file.
func parsePages(pages map[string]*template.Template, layout *template.Template, files fs.FS) error {
	names, err := fs.Glob(files, "templates/*.html")
	if err != nil {
		return err
	}
	for _, name := range names {
		page := strings.TrimSuffix(path.Base(name), ".html")
		if pages[page] != nil {
			return fmt.Errorf("two pages have the template name %q", page)
		}
		t, err := layout.Clone()
		if err == nil {
			t, err = t.ParseFS(files, name)
		}
		if err != nil {
			return err
		}
		pages[page] = t
	}
	return nil
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
