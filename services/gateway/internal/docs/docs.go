// Package docs serves what consumers read: the pages of module docs, the page of error codes, and the interface description.
// Everything is rendered once, at start; a request is answered from memory.
package docs

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"go.yaml.in/yaml/v3"

	"opportunity.internal/docs"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
)

//go:embed page.html errors.html refusal.html style.css
var files embed.FS

// Site holds the rendered documents by path.
type Site struct {
	documents map[string]document
	layout    *template.Template
}

type document struct {
	content []byte
	kind    string // media type
	etag    string
}

// localURL is the address that the written documents use where a reader's own deployment is meant.
const localURL = "http://localhost:8080"

// New renders the site for consumers who reach the service at publicURL.
func New(publicURL string) (*Site, error) {
	layout, err := template.ParseFS(files, "*.html")
	if err != nil {
		return nil, err
	}
	s := &Site{map[string]document{}, layout}
	local := func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(localURL), []byte(publicURL)) }
	markdown := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	for _, p := range docs.Pages {
		source, err := docs.Files.ReadFile(p.File)
		if err != nil {
			return nil, err
		}
		var body bytes.Buffer
		if err := markdown.Convert(local(source), &body); err != nil {
			return nil, fmt.Errorf("%s: %w", p.File, err)
		}
		// What is wider than a phone scrolls within itself, and must do so for a keyboard too.
		focusable := strings.ReplaceAll(body.String(), "<pre>", `<pre tabindex="0">`)
		if err := s.page(path(p.Slug), p.Title, template.HTML(focusable)); err != nil { //nolint:gosec // our own text
			return nil, err
		}
	}
	var codes bytes.Buffer
	if err := layout.ExecuteTemplate(&codes, "errors.html", problem.Table); err != nil {
		return nil, err
	}
	if err := s.page(errorsPath, errorsTitle, template.HTML(codes.String())); err != nil { //nolint:gosec // a template's output
		return nil, err
	}
	s.documents["/"] = s.documents[path("")]

	style, err := files.ReadFile("style.css")
	if err != nil {
		return nil, err
	}
	s.add("/docs/style.css", "text/css; charset=utf-8", style)
	description := local(api.OpenAPIYAML)
	s.add("/openapi.yaml", "application/yaml", description)
	var tree any
	if err := yaml.Unmarshal(description, &tree); err != nil {
		return nil, fmt.Errorf("interface description: %w", err)
	}
	asJSON, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("interface description: %w", err)
	}
	s.add("/openapi.json", "application/json", asJSON)
	return s, nil
}

const (
	errorsPath  = "/docs/errors"
	errorsTitle = "Error codes"
)

func path(slug string) string {
	if slug == "" {
		return "/docs"
	}
	return "/docs/" + slug
}

type link struct {
	Path, Title string
	Current     bool
}

func (s *Site) page(at, title string, body template.HTML) error {
	page, err := s.lay(at, title, body)
	s.add(at, "text/html; charset=utf-8", page)
	return err
}

// lay puts a body into the layout of all pages.
func (s *Site) lay(at, title string, body template.HTML) ([]byte, error) {
	var menu []link
	for _, p := range docs.Pages {
		menu = append(menu, link{path(p.Slug), p.Title, path(p.Slug) == at})
	}
	menu = append(menu, link{errorsPath, errorsTitle, at == errorsPath})
	var page bytes.Buffer
	err := s.layout.ExecuteTemplate(&page, "page.html", map[string]any{"Title": title, "Menu": menu, "Body": body})
	return page.Bytes(), err
}

// Refusal is the page that tells a person of an error.
func (s *Site) Refusal(e *problem.Error) []byte {
	var body bytes.Buffer
	title := http.StatusText(e.Code.Status())
	err := s.layout.ExecuteTemplate(&body, "refusal.html", map[string]any{"Title": title, "Error": e, "Wait": e.Code == problem.ServiceUnavailable})
	if err == nil {
		if page, err := s.lay("", title, template.HTML(body.String())); err == nil { //nolint:gosec // a template's output
			return page
		}
	}
	return []byte("<!DOCTYPE html><title>" + title + "</title><h1>" + title + "</h1>")
}

func (s *Site) add(path, kind string, content []byte) {
	sum := sha256.Sum256(content)
	s.documents[path] = document{content, kind, `W/"` + hex.EncodeToString(sum[:12]) + `"`} // weak: the answer may be compressed on its way
}

// Has reports whether there is a document at that path.
func (s *Site) Has(path string) bool {
	_, ok := s.documents[path]
	return ok
}

// policy allows nothing but what the pages need: their text and the style sheet.
const policy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Protect tells browsers to take a document of this package for what it is, and to do nothing else with it.
func Protect(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
}

// ServeHTTP answers GET and HEAD of a path that the site Has.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d := s.documents[r.URL.Path]
	h := w.Header()
	h.Set("Content-Type", d.kind)
	h.Set("ETag", d.etag)
	h.Set("Cache-Control", "public, max-age=300")
	Protect(h)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(d.content))
}
