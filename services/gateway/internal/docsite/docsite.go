// Package docsite serves the consumer documentation: the pages of module docs, the error codes, the
// SDKs and the OpenAPI description. All documents are rendered in advance and served from memory.
//
// A Site holds the documents by path. A rendering makes them: Markdown pages in the layout of the
// site with a menu and a search, tables that code has, such as the error codes, and the front page.
// They state the Figures of this installation, which are the limits of its tiers. While these are
// unknown, the documents that state them are withheld; when they or the data of the front page and
// the status page change, the site renders the documents that have them again (Site.change).
package docsite

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"mime"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	texttemplate "text/template"
	"time"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
	"go.yaml.in/yaml/v3"

	"opportunity.internal/docs"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/sdk"
)

//go:embed *.html *.tmpl errors.md reference.md operation.md schemas.md sdk.md static
var files embed.FS

// Site holds the rendered documents.
type Site struct {
	publicURL string
	operator  Operator
	assets    pages.Files
	layout    *template.Template
	sources   *texttemplate.Template // documents that are made from tables
	markdown  goldmark.Markdown
	firstCall string
	documents atomic.Pointer[map[string]document] // by path

	mu      sync.Mutex           // held while documents are rendered
	figures *Figures             // nil while unknown
	catalog *api.CatalogOverview // nil while unknown
	fetched time.Time            // when catalog was
	health  *Health              // nil before the first check
	served  []api.DayServed      // nil while unknown

	measured measured
}

type document struct {
	content []byte // nil while its figures are unknown
	kind    string // media type
	etag    string
	cache   string // Cache-Control

	sections []section // of a Markdown page, for the search
}

// localURL is the service URL in the sources; it is replaced by the public URL.
const localURL = "http://localhost:8080"

// noContact is a sentence of the sources that the contact of the operator replaces.
const noContact = "The operator has not published a contact."

// New renders the site for the service at publicURL with the texts and contacts of its operator.
// Documents that state limits are unavailable until Show sets the figures.
func New(publicURL string, by Operator) (*Site, error) {
	s := &Site{publicURL: publicURL, operator: by, markdown: goldmark.New(goldmark.WithExtensions(extension.GFM),
		goldmark.WithParserOptions(parser.WithAutoHeadingID(), parser.WithAttribute(),
			parser.WithASTTransformers(util.Prioritized(adjust{}, 1000))),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(codeBlocks{}, 100))))}
	functions := template.FuncMap{"asset": s.asset, "code": codeHTML, "instant": instant}
	var err error
	if s.assets, err = pages.Load(files, "static"); err != nil {
		return nil, err
	}
	if s.layout, err = pages.ParseFrame(template.New("").Funcs(functions)); err != nil {
		return nil, err
	}
	if _, err = s.layout.ParseFS(files, "*.html"); err != nil {
		return nil, err
	}
	if s.sources, err = texttemplate.New("").Funcs(referenceFunctions).ParseFS(files, "*.md", "*.tmpl"); err != nil {
		return nil, err
	}
	if s.firstCall, err = firstCall(); err != nil {
		return nil, err
	}
	s.documents.Store(&map[string]document{})
	return s, s.change(func() {}, rendering.all)
}

// Show renders the documents that state limits, with those of the installation.
func (s *Site) Show(f Figures) error {
	if err := f.Validate(); err != nil {
		return err
	}
	return s.change(func() { s.figures = &f }, rendering.limited)
}

// change makes a change, renders the documents that part adds, and keeps the others.
func (s *Site) change(change func(), part func(rendering) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	rendered := rendering{s, maps.Clone(*s.documents.Load())}
	if err := part(rendered); err != nil {
		return err
	}
	s.documents.Store(&rendered.documents)
	return nil
}

type rendering struct {
	*Site

	documents map[string]document
}

func (r rendering) all() error {
	r.static()
	return errors.Join(r.limited(), r.status(), r.errorCodes(), r.sdkPages(), r.operatorPages(), r.forCrawlers())
}

// limited adds the pages and the description of the API. Those that state limits are withheld while
// the limits are unknown; the others are rendered once.
func (r rendering) limited() error {
	for _, p := range docs.Pages {
		source, err := docs.Files.ReadFile(p.File)
		if err != nil {
			return err
		}
		at := path(p.Slug)
		text, cache := r.local(source)
		if _, ok := r.documents[at]; ok && cache == cached {
			continue
		}
		about := entry{Path: at, Title: p.Title, Description: p.Description}
		if err := r.markdownPage(page{entry: about, cache: cache}, text); err != nil {
			return err
		}
	}
	text, cache := r.local(api.OpenAPIYAML)
	return errors.Join(r.front(), r.reference(text, cache), r.description(text, cache))
}

func (r rendering) source(name string, table any) (string, error) {
	var text strings.Builder
	err := r.sources.ExecuteTemplate(&text, name, table)
	return text.String(), err
}

func (r rendering) tablePage(p page, source string, table any) error {
	text, err := r.source(source, table)
	if err != nil {
		return err
	}
	return r.markdownPage(p, text)
}

var errorsEntry = entry{docs.Reference, "/docs/errors", "Error codes",
	"Every error code of the API, its HTTP status, what it means, and what to do about it."}

func (r rendering) errorCodes() error {
	return r.tablePage(page{entry: errorsEntry, cache: cached}, "errors.md", problem.Table)
}

// forCrawlers adds what search engines and models read first. llms.txt, in the form of
// https://llmstxt.org, lists the Markdown texts of the pages that have one.
func (r rendering) forCrawlers() error {
	table := map[string]any{
		"URL": r.publicURL, "Name": siteName, "Description": frontDescription, "Groups": docs.Groups, "Entries": entries(),
		"Text": func(page string) string {
			if _, ok := r.documents[markdownPath(page)]; ok {
				return markdownPath(page)
			}
			return page
		},
	}
	for name, kind := range map[string]string{
		"robots.txt": "text/plain; charset=utf-8", "llms.txt": "text/plain; charset=utf-8", "sitemap.xml": "application/xml",
	} {
		text, err := r.source(name+".tmpl", table)
		if err != nil {
			return err
		}
		r.add("/"+name, kind, []byte(text), cached)
	}
	return nil
}

func (r rendering) static() {
	for name, content := range r.assets.All() {
		d := newDocument(mime.TypeByExtension(filepath.Ext(name)), content, "public, max-age=31536000, immutable")
		r.documents[staticPath+name] = d
	}
}

func (s *Site) asset(name string) (string, error) {
	served, err := s.assets.Name(name)
	return staticPath + served, err
}

// Cache-Control of the documents. Those with figures are revalidated on each use, because settings
// change the figures.
const (
	cached      = "public, max-age=300"
	revalidated = "public, no-cache"
	withheld    = ""
)

// local returns a source with the address and the figures of this installation, and the
// Cache-Control of its document.
func (r rendering) local(source []byte) (text, cache string) {
	source = bytes.ReplaceAll(source, []byte(localURL), []byte(r.publicURL))
	if c := r.operator.Contact; c != (Contact{}) {
		source = bytes.ReplaceAll(source, []byte(noContact), fmt.Appendf(nil, "Write to [%s](%s).", c.Text, c.URL))
	}
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

// description adds the OpenAPI description as YAML, without the comments at its beginning, and as
// JSON.
func (r rendering) description(source, cache string) error {
	var tree any
	if err := yaml.Unmarshal([]byte(source), &tree); err != nil {
		return fmt.Errorf("rendering OpenAPI description: %w", err)
	}
	asJSON, err := json.Marshal(tree)
	for strings.HasPrefix(source, "#") {
		_, source, _ = strings.Cut(source, "\n")
	}
	r.add("/openapi.yaml", "application/yaml", []byte(source), cache)
	r.add("/openapi.json", "application/json", asJSON, cache)
	return err
}

const staticPath = "/docs/static/"

func path(slug string) string {
	if slug == "" {
		return "/docs"
	}
	return "/docs/" + slug
}

// add adds a document, unless its figures are unknown: then it only adds the path.
func (r rendering) add(path, kind string, content []byte, cache string) {
	if r.documents[path] = (document{}); cache != withheld {
		r.documents[path] = newDocument(kind, content, cache)
	}
}

func newDocument(kind string, content []byte, cache string) document {
	sum := sha256.Sum256(content)
	etag := `W/"` + hex.EncodeToString(sum[:12]) + `"` // weak: the response may be compressed
	return document{content: content, kind: kind, etag: etag, cache: cache}
}

// Paths returns the paths of all documents that need no work to serve.
func (s *Site) Paths() []string { return slices.Collect(maps.Keys(*s.documents.Load())) }

// policy allows only the static files, and the form of the search. Browsers' audits fetch
// robots.txt as the page, which needs connect-src.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// Protect sets the security headers of a document.
func Protect(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
}

// Serve serves GET and HEAD of an existing document. It returns an error (503) if the document
// states limits and the figures are unknown.
func (s *Site) Serve(w http.ResponseWriter, r *http.Request) error {
	if r.URL.Path == SearchPath {
		return s.serveSearch(w, r)
	}
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

// sdkEntry is the page of the SDKs. Its path is the prefix of their archives.
var sdkEntry = entry{docs.Reference, "/sdk/", "SDKs", "Clients for Go, TypeScript and Python without dependencies: " +
	"how to install them, and their files with checksums."}

// archives returns the files of the distribution. Every rendering has the same ones.
var archives = sync.OnceValues(sdk.Archives)

func (r rendering) sdkPages() error {
	archives, err := archives()
	if err != nil {
		return err
	}
	sums := map[string]string{}
	for name, content := range archives {
		r.add(sdkEntry.Path+name, mediaType(name), content, cached)
		sum := sha256.Sum256(content)
		sums[name] = hex.EncodeToString(sum[:])
	}
	err = r.tablePage(page{entry: sdkEntry, cache: cached}, "sdk.md", map[string]any{
		"URL": r.publicURL, "Tarball": sdk.Tarball, "Wheel": sdk.Wheel, "Module": sdk.Module, "Command": sdk.Command,
		"Sums": sums, "Version": sdk.Version,
	})
	r.documents["/sdk"] = r.documents[sdkEntry.Path]
	return err
}

func mediaType(name string) string {
	switch filepath.Ext(name) {
	case ".tgz":
		return "application/gzip"
	case ".whl", ".zip":
		return "application/zip"
	case ".info":
		return "application/json"
	}
	return "text/plain; charset=utf-8"
}
