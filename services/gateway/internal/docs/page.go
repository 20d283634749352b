package docs

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
	"strings"

	"opportunity.internal/docs"
	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/problem"
)

const siteName = "Opportunity Data API"

// page is an HTML page.
type page struct {
	Path, Title string
	Description string        // for search engines
	Canonical   string        // URL of the page; empty for pages that are not indexed
	Source      string        // path of the same text as Markdown; empty if there is none
	Body        template.HTML // content of the main element
	Wide        bool          // without the menu

	cache string // Cache-Control
}

// add adds the page.
func (r rendering) page(p page) error {
	p.Canonical = r.publicURL + p.Path
	content, err := r.layoutPage(p)
	r.add(p.Path, "text/html; charset=utf-8", content, p.cache)
	return err
}

// markdownPage adds the page with a Markdown text, and the text itself.
func (r rendering) markdownPage(p page, text string) error {
	var body bytes.Buffer
	if err := r.markdown.Convert([]byte(text), &body); err != nil {
		return fmt.Errorf("rendering %s: %w", p.Path, err)
	}
	p.Body, p.Source = template.HTML(body.String()), markdownPath(p.Path)                //nolint:gosec // our own text
	for _, source := range []string{p.Source, strings.TrimSuffix(p.Path, "/") + ".md"} { // a start page has both
		r.add(source, "text/markdown; charset=utf-8", []byte(text), p.cache)
	}
	return r.page(p)
}

// templatePage adds the page whose body is a template with data.
func (r rendering) templatePage(p page, name string, data any) error {
	var body bytes.Buffer
	if err := r.layout.ExecuteTemplate(&body, name, data); err != nil {
		return err
	}
	p.Body = template.HTML(body.String()) //nolint:gosec // a template's output
	return r.page(p)
}

// markdownPath returns the path of the Markdown text of a page.
func markdownPath(page string) string {
	if page == path("") || strings.HasSuffix(page, "/") {
		return strings.TrimSuffix(page, "/") + "/index.md"
	}
	return page + ".md"
}

// entry is a page in the menu and in the lists for crawlers.
type entry struct{ Group, Path, Title, Description string }

// entries returns all pages of the documentation. In each group, the pages that are made from tables come first.
func entries() []entry {
	all := []entry{
		{docs.Reference, referencePath, referenceTitle, referenceDescription},
		{docs.Reference, errorsPath, errorsTitle, errorsDescription},
		{docs.Reference, sdkPath, sdkTitle, sdkDescription},
		{docs.Help, statusPath, statusTitle, statusDescription},
	}
	for _, p := range docs.Pages {
		all = append(all, entry{p.Group, path(p.Slug), p.Title, p.Description})
	}
	return all
}

// menuGroup is a group of the menu.
type menuGroup struct {
	Title string
	Links []pages.Link
}

// menu returns the menu of the page at a path.
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

// frame returns the header and the footer of the page at a path.
func (s *Site) frame(at string) pages.Frame {
	f := pages.Frame{
		Name: siteName, Home: "/",
		Links:  []pages.Link{{Path: path(""), Label: "Documentation"}, {Path: referencePath, Label: referenceTitle}, {Path: "/account", Label: "Your account"}},
		Footer: []pages.Link{{Path: statusPath, Label: statusTitle}, {Path: termsPath, Label: "Terms of use"}, {Path: privacyPath, Label: "Privacy"}},
	}
	if s.operator.Contact.URL != "" {
		f.Footer = append(f.Footer, pages.Link{Path: s.operator.Contact.URL, Label: "Contact the operator"})
	}
	for i, l := range f.Links {
		f.Links[i].Current = l.Path == at
	}
	return f
}

// scrolling makes blocks that are wider than a phone scroll on their own, by keyboard too.
var scrolling = strings.NewReplacer("<pre>", `<pre tabindex="0">`,
	"<table>", `<div class="scroll" role="group" aria-label="Table" tabindex="0"><table>`, "</table>", "</table></div>")

// layoutPage renders a page in the layout of all pages.
func (s *Site) layoutPage(p page) ([]byte, error) {
	data := struct {
		page

		Frame pages.Frame
		Menu  []menuGroup
	}{p, s.frame(p.Path), nil}
	if !p.Wide {
		data.Menu = menu(p.Path)
	}
	data.Body = template.HTML(scrolling.Replace(string(p.Body))) //nolint:gosec // our own text
	var out bytes.Buffer
	err := s.layout.ExecuteTemplate(&out, "page.html", data)
	return out.Bytes(), err
}

// ErrorPage returns the HTML page of an error.
func (s *Site) ErrorPage(e *problem.Error) []byte {
	var body bytes.Buffer
	title := http.StatusText(e.Code.Status())
	err := s.layout.ExecuteTemplate(&body, "errorpage.html", map[string]any{"Title": title, "Error": e, "Wait": e.Code == problem.ServiceUnavailable})
	if err == nil {
		p := page{Title: title, Wide: true, Body: template.HTML(body.String())} //nolint:gosec // a template's output
		if content, err := s.layoutPage(p); err == nil {
			return content
		}
	}
	return []byte("<!DOCTYPE html><title>" + title + "</title><h1>" + title + "</h1>")
}
