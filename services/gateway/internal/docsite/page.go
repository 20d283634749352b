package docsite

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
	gtext "github.com/yuin/goldmark/text"

	"opportunity.internal/docs"
	"opportunity.internal/pkg/apidoc"
	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/problem"
)

const siteName = "Opportunity Data API"

// entry describes a page in the menu and in the lists for crawlers.
type entry struct{ Group, Path, Title, Description string }

type page struct {
	entry

	Canonical string        // URL of the page; empty for pages that are not indexed
	Source    string        // path of the same text as Markdown; empty if there is none
	Body      template.HTML // content of the main element
	Contents  []pages.Link  // to the headings of the page
	Query     string        // of the search
	Wide      bool          // without the menu
	Sides     bool          // what follows the first rule is beside the rest on wide screens

	sections []section // for the search
	cache    string    // Cache-Control
}

func (r rendering) page(p page) error {
	p.Canonical = r.publicURL + p.Path
	content, err := r.layoutPage(p)
	d := newDocument("text/html; charset=utf-8", content, p.cache)
	d.sections = p.sections
	r.documents[p.Path] = d
	return err
}

func (r rendering) markdownPage(p page, text string) error {
	p.Source = markdownPath(p.Path)
	for _, path := range []string{p.Source, strings.TrimSuffix(p.Path, "/") + ".md"} { // a start page has both
		r.add(path, "text/markdown; charset=utf-8", []byte(text), p.cache)
	}
	if p.cache == withheld { // rendered once the figures are known
		r.documents[p.Path] = document{}
		return nil
	}
	var body bytes.Buffer
	source := []byte(text)
	document := r.markdown.Parser().Parse(gtext.NewReader(source))
	if err := r.markdown.Renderer().Render(&body, source, document); err != nil {
		return fmt.Errorf("rendering %s: %w", p.Path, err)
	}
	content := body.String()
	if left, right, found := strings.Cut(content, "<hr>\n"); found && p.Sides {
		content = "<div class=\"sides\"><div>\n" + left + "</div><div>\n" + right + "</div></div>\n"
	}
	p.Body = template.HTML(content) //nolint:gosec // our own text
	p.sections, p.Contents = sectionsOf(p, document, source), contentsOf(document, source)
	return r.page(p)
}

const fewestContents = 3 // headings from which on a page lists them

func contentsOf(document ast.Node, source []byte) (all []pages.Link) {
	for n := document.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok && h.Level == 2 {
			all = append(all, pages.Link{Path: "#" + anchorOf(h), Label: plainText(h, source)})
		}
	}
	if len(all) < fewestContents {
		return nil
	}
	return all
}

func (r rendering) templatePage(p page, name string, data any) error {
	var err error
	if p.Body, err = r.body(name, data); err != nil {
		return err
	}
	if p.sections == nil && !p.Wide {
		p.sections = sectionsOf(p, ast.NewDocument(), nil)
	}
	return r.page(p)
}

func (s *Site) body(name string, data any) (template.HTML, error) {
	var body bytes.Buffer
	err := s.layout.ExecuteTemplate(&body, name, data)
	return template.HTML(body.String()), err //nolint:gosec // a template's output
}

func markdownPath(page string) string {
	if page == path("") || strings.HasSuffix(page, "/") {
		return strings.TrimSuffix(page, "/") + "/index.md"
	}
	return page + ".md"
}

// entries returns all pages of the documentation. In each group, the pages that are made from
// tables come first.
func entries() []entry {
	doc, _ := apidoc.Published() // New has read it
	all := append(referencePages(doc), errorsEntry, sdkEntry, statusEntry)
	for _, p := range docs.Pages {
		all = append(all, entry{p.Group, path(p.Slug), p.Title, p.Description})
	}
	return all
}

type menuGroup struct {
	Title string
	Links []pages.Link
}

func menu(at string) (groups []menuGroup) {
	for _, title := range docs.Groups {
		group := menuGroup{Title: title}
		for _, e := range entries() {
			if e.Group == title {
				group.Links = append(group.Links, pages.Link{Path: e.Path, Label: e.Title, Current: e.Path == at})
			}
		}
		groups = append(groups, group)
	}
	return groups
}

func (s *Site) frame(at string) pages.Frame {
	f := pages.Frame{
		Name: siteName, Home: "/",
		Links: []pages.Link{{Path: path(""), Label: "Documentation"},
			{Path: referenceEntry.Path, Label: referenceEntry.Title}, {Path: "/account", Label: "Your account"}},
		Footer: []pages.Link{{Path: statusEntry.Path, Label: statusEntry.Title}, {Path: termsPath, Label: "Terms of use"},
			{Path: privacyPath, Label: "Privacy"}},
	}
	if s.operator.Contact.URL != "" {
		f.Footer = append(f.Footer, pages.Link{Path: s.operator.Contact.URL, Label: "Contact the operator"})
	}
	for i, l := range f.Links {
		f.Links[i].Current = l.Path == at
	}
	return f
}

// neighbors returns the pages before and after the one at a path, in the order of the menu; nil at
// its ends and for other pages.
func neighbors(groups []menuGroup) (before, after *pages.Link) {
	var all []pages.Link
	for _, g := range groups {
		all = append(all, g.Links...)
	}
	i := slices.IndexFunc(all, func(l pages.Link) bool { return l.Current })
	if i > 0 {
		before = &all[i-1]
	}
	if i >= 0 && i+1 < len(all) {
		after = &all[i+1]
	}
	return before, after
}

func (s *Site) layoutPage(p page) ([]byte, error) {
	data := struct {
		page

		Frame         pages.Frame
		Menu          []menuGroup
		Before, After *pages.Link
	}{page: p, Frame: s.frame(p.Path)}
	if !p.Wide {
		data.Menu = menu(p.Path)
		data.Before, data.After = neighbors(data.Menu)
	}
	var out bytes.Buffer
	err := s.layout.ExecuteTemplate(&out, "page.html", data)
	return out.Bytes(), err
}

// ErrorPage returns the HTML page of an error.
func (s *Site) ErrorPage(e *problem.Error) []byte {
	title := http.StatusText(e.Code.Status())
	body, err := s.body("errorpage.html", map[string]any{"Title": title, "Error": e,
		"Wait": e.Code == problem.ServiceUnavailable})
	if err == nil {
		if content, err := s.layoutPage(page{entry: entry{Title: title}, Wide: true, Body: body}); err == nil {
			return content
		}
	}
	return []byte("<!DOCTYPE html><title>" + title + "</title><h1>" + title + "</h1>")
}
