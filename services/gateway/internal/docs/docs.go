// Package docs serves the consumer documentation: the pages of module docs, the error codes, the SDKs and the OpenAPI
// description. All documents are rendered in advance and served from memory.
package docs

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"go.yaml.in/yaml/v3"

	"opportunity.internal/docs"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
)

//go:embed page.html errors.html errorpage.html operator.html reference.html sdk.html style.css
var files embed.FS

// Site holds the rendered documents.
type Site struct {
	publicURL string
	operator  Operator
	layout    *template.Template
	markdown  goldmark.Markdown
	documents atomic.Pointer[map[string]document] // by path
}

type document struct {
	content []byte // nil while its figures are unknown
	kind    string // media type
	etag    string
	cache   string // Cache-Control
}

// localURL is the service URL in the sources; it is replaced by the public URL.
const localURL = "http://localhost:8080"

// New renders the site for the service at publicURL with the texts and contacts of its operator. Documents that state limits are
// unavailable until Show sets the figures.
func New(publicURL string, by Operator) (*Site, error) {
	layout, err := template.ParseFS(files, "*.html")
	if err != nil {
		return nil, err
	}
	s := &Site{publicURL: publicURL, operator: by, layout: layout, markdown: goldmark.New(
		goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))}
	return s, s.render(nil)
}

// Show renders the site with the limits of the installation.
func (s *Site) Show(f Figures) error {
	if err := f.Validate(); err != nil {
		return err
	}
	return s.render(&f)
}

// render replaces all documents; f is nil while the figures are unknown.
func (s *Site) render(f *Figures) error {
	rendered := rendering{s, f, map[string]document{}}
	if err := rendered.all(); err != nil {
		return err
	}
	s.documents.Store(&rendered.documents)
	return nil
}

// rendering collects the documents of one render.
type rendering struct {
	*Site

	figures   *Figures
	documents map[string]document
}

func (r rendering) all() error {
	for _, p := range docs.Pages {
		source, err := docs.Files.ReadFile(p.File)
		if err != nil {
			return err
		}
		text, cache := r.local(source)
		var body bytes.Buffer
		if err := r.markdown.Convert([]byte(text), &body); err != nil {
			return fmt.Errorf("rendering %s: %w", p.File, err)
		}
		if err := r.page(path(p.Slug), p.Title, template.HTML(body.String()), cache); err != nil { //nolint:gosec // our own text
			return err
		}
	}
	var codes bytes.Buffer
	if err := r.layout.ExecuteTemplate(&codes, "errors.html", problem.Table); err != nil {
		return err
	}
	if err := r.page(errorsPath, errorsTitle, template.HTML(codes.String()), cached); err != nil { //nolint:gosec // a template's output
		return err
	}
	if err := r.sdkPages(); err != nil {
		return err
	}
	if err := r.operatorPages(); err != nil {
		return err
	}
	r.documents["/"] = r.documents[path("")]

	style, err := files.ReadFile("style.css")
	if err != nil {
		return err
	}
	r.add("/docs/style.css", "text/css; charset=utf-8", style, cached)
	text, cache := r.local(api.OpenAPIYAML)
	if err := r.reference(text, cache); err != nil {
		return fmt.Errorf("rendering reference: %w", err)
	}
	asYAML, asJSON, err := description(text)
	if err != nil {
		return fmt.Errorf("rendering OpenAPI description: %w", err)
	}
	r.add("/openapi.yaml", "application/yaml", asYAML, cache)
	r.add("/openapi.json", "application/json", asJSON, cache)
	return nil
}

// Cache-Control of the documents. Those with figures are revalidated on each use, because settings change the figures.
const (
	cached      = "public, max-age=300"
	revalidated = "public, no-cache"
	withheld    = ""
)

// local returns a source with the address and the figures of this installation, and the Cache-Control of its document.
func (r rendering) local(source []byte) (text, cache string) {
	source = bytes.ReplaceAll(source, []byte(localURL), []byte(r.publicURL))
	f, cache := r.figures, revalidated
	if f == nil {
		f, cache = &defaults, withheld
	}
	text, found := f.apply(source)
	if !found {
		cache = cached
	}
	return text, cache
}

// description returns the OpenAPI description as YAML, in the original order and without comments, and as JSON.
func description(source string) (asYAML, asJSON []byte, err error) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(source), &document); err != nil {
		return nil, nil, err
	}
	uncomment(&document)
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(&document), encoder.Close()); err != nil {
		return nil, nil, err
	}
	var tree any
	if err := document.Decode(&tree); err != nil {
		return nil, nil, err
	}
	asJSON, err = json.Marshal(tree)
	return out.Bytes(), asJSON, err
}

func uncomment(n *yaml.Node) {
	n.HeadComment, n.LineComment, n.FootComment = "", "", ""
	for _, child := range n.Content {
		uncomment(child)
	}
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

func (r rendering) page(at, title string, body template.HTML, cache string) error {
	page, err := r.layoutPage(at, title, body)
	r.add(at, "text/html; charset=utf-8", page, cache)
	return err
}

// focusable makes blocks that scroll on their own, because they are wider than a phone, scrollable by keyboard.
var focusable = strings.NewReplacer("<pre>", `<pre tabindex="0">`, "<table>", `<table tabindex="0">`)

// layoutPage renders body in the layout of all pages.
func (s *Site) layoutPage(at, title string, body template.HTML) ([]byte, error) {
	var menu []link
	for _, p := range docs.Pages {
		menu = append(menu, link{path(p.Slug), p.Title, path(p.Slug) == at})
	}
	menu = append(menu, link{referencePath, referenceTitle, at == referencePath}, link{errorsPath, errorsTitle, at == errorsPath}, link{sdkPath, sdkTitle, at == sdkPath})
	var page bytes.Buffer
	err := s.layout.ExecuteTemplate(&page, "page.html", map[string]any{"Title": title, "Menu": menu,
		"Body": template.HTML(focusable.Replace(string(body))), "Contact": s.operator.Contact}) //nolint:gosec // our own text
	return page.Bytes(), err
}

// ErrorPage returns the HTML page of an error.
func (s *Site) ErrorPage(e *problem.Error) []byte {
	var body bytes.Buffer
	title := http.StatusText(e.Code.Status())
	err := s.layout.ExecuteTemplate(&body, "errorpage.html", map[string]any{"Title": title, "Error": e, "Wait": e.Code == problem.ServiceUnavailable})
	if err == nil {
		if page, err := s.layoutPage("", title, template.HTML(body.String())); err == nil { //nolint:gosec // a template's output
			return page
		}
	}
	return []byte("<!DOCTYPE html><title>" + title + "</title><h1>" + title + "</h1>")
}

func (r rendering) add(path, kind string, content []byte, cache string) {
	if cache == withheld {
		content = nil
	}
	r.documents[path] = newDocument(kind, content, cache)
}

func newDocument(kind string, content []byte, cache string) document {
	sum := sha256.Sum256(content)
	etag := `W/"` + hex.EncodeToString(sum[:12]) + `"` // weak: the response may be compressed
	return document{content, kind, etag, cache}
}

// Has reports whether a document exists at path.
func (s *Site) Has(path string) bool {
	_, ok := (*s.documents.Load())[path]
	return ok
}

// policy allows only the style sheet.
const policy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Protect sets the security headers of a document.
func Protect(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
}

// Serve serves GET and HEAD of an existing document. It returns an error (503) if the document states limits and the figures are
// unknown.
func (s *Site) Serve(w http.ResponseWriter, r *http.Request) error {
	d := (*s.documents.Load())[r.URL.Path]
	if r.URL.Path == securityPath { // its expiry moves with the day
		d = newDocument(d.kind, s.securityText(), d.cache)
	}
	if d.content == nil {
		return problem.Unavailable(errors.New("tier table not fetched from authquota yet"))
	}
	h := w.Header()
	h.Set("Content-Type", d.kind)
	h.Set("ETag", d.etag)
	h.Set("Cache-Control", d.cache)
	Protect(h)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(d.content))
	return nil
}
