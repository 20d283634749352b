package docs

import (
	"cmp"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
)

// The search over all pages. A query is answered from the sections of the pages in memory, without an index: they are 300 KB.
const (
	SearchPath  = "/docs/search" // costs more than a document from memory
	searchTitle = "Search the documentation"

	maxQuery   = 100 // characters
	maxWords   = 8
	maxResults = 20
	excerpt    = 90 // bytes before and after the first word that is found
)

// section is the part of a page below a heading.
type section struct {
	Path, Page, Title string // Path has the anchor

	text string

	// In lower case, for comparison.
	lower                            string // title and text
	lowerPage, lowerTitle, lowerText string
}

// sectionsOf returns the sections of a Markdown page. Blocks before the first heading with an anchor belong to the page itself.
func sectionsOf(p page, document ast.Node, source []byte) []section {
	all := []section{{Path: p.Path, Page: p.Title, Title: p.Title}}
	for n := document.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok && h.Level > 1 {
			id, _ := h.AttributeString("id")
			anchor, _ := id.([]byte)
			all = append(all, section{Path: p.Path + "#" + string(anchor), Page: p.Title, Title: string(plainText(h, source))})
			continue
		}
		last := &all[len(all)-1]
		last.text += string(textOf(n, source)) + " "
	}
	for i := range all {
		all[i].text = strings.Join(strings.Fields(all[i].text), " ")
		s := &all[i]
		s.lowerPage, s.lowerTitle, s.lowerText = strings.ToLower(s.Page), strings.ToLower(s.Title), strings.ToLower(s.text)
		s.lower = s.lowerTitle + " " + s.lowerText
	}
	return all
}

// textOf returns the text of a block, with spaces between the blocks and cells in it.
func textOf(n ast.Node, source []byte) (out []byte) {
	if n.Type() == ast.TypeInline || !n.HasChildren() || n.FirstChild().Type() == ast.TypeInline {
		return plainText(n, source)
	}
	for child := n.FirstChild(); child != nil; child = child.NextSibling() {
		out = append(append(out, textOf(child, source)...), ' ')
	}
	return out
}

// result is a section that matches a query, with the text around the first word that is found.
type result struct {
	section

	Excerpt template.HTML
	rank    int
}

// search returns the sections that have all words of a query, the best first.
func search(sections []section, query string) (all []result) {
	words := strings.Fields(strings.ToLower(query))
	words = words[:min(len(words), maxWords)]
	if len(words) == 0 {
		return nil
	}
	for _, s := range sections {
		if rank := s.rank(words); rank > 0 {
			all = append(all, result{section: s, rank: rank})
		}
	}
	slices.SortStableFunc(all, func(a, b result) int { return cmp.Compare(b.rank, a.rank) })
	all = all[:min(len(all), maxResults)]
	for i := range all {
		all[i].Excerpt = all[i].excerpt(words)
	}
	return all
}

// rank is 0 if a word is missing. A word in the title of the section counts most, then one in that of the page.
func (s section) rank(words []string) (rank int) {
	for _, w := range words {
		n := strings.Count(s.lower, w)
		if n == 0 {
			return 0
		}
		rank += min(n, 5)
		if strings.Contains(s.lowerTitle, w) {
			rank += 20
		}
		if strings.Contains(s.lowerPage, w) {
			rank += 8
		}
	}
	return rank
}

// excerpt returns the text around the first word that the text has, with this word marked.
func (s section) excerpt(words []string) template.HTML {
	lower, at, word := s.lowerText, -1, ""
	for _, w := range words {
		if i := strings.Index(lower, w); i >= 0 && (at < 0 || i < at) {
			at, word = i, w
		}
	}
	if at < 0 || len(lower) != len(s.text) { // lower case may be longer in UTF-8
		at, word = 0, ""
	}
	from, end := boundary(s.text, at-excerpt), at+len(word)
	to := boundary(s.text, end+excerpt)
	var out strings.Builder
	if from > 0 {
		out.WriteString("… ")
	}
	out.WriteString(template.HTMLEscapeString(s.text[from:at]))
	if word != "" {
		out.WriteString("<mark>" + template.HTMLEscapeString(s.text[at:end]) + "</mark>")
	}
	out.WriteString(template.HTMLEscapeString(s.text[end:to]))
	if to < len(s.text) {
		out.WriteString(" …")
	}
	return template.HTML(out.String()) //nolint:gosec // escaped
}

// boundary returns the beginning of the character at a position, which may lie outside the text.
func boundary(text string, at int) int {
	at = min(max(at, 0), len(text))
	for at > 0 && at < len(text) && !utf8.RuneStart(text[at]) {
		at--
	}
	return at
}

// searchPage returns the page with the results of a query.
func (s *Site) searchPage(query string) ([]byte, error) {
	if utf8.RuneCountInString(query) > maxQuery {
		query = string([]rune(query)[:maxQuery])
	}
	var all []section
	documents := *s.documents.Load()
	for _, e := range entries() {
		all = append(all, documents[e.Path].sections...)
	}
	body, err := s.body("search.html", map[string]any{"Query": query, "Results": search(all, query)})
	if err != nil {
		return nil, err
	}
	return s.layoutPage(page{Path: SearchPath, Title: searchTitle, Query: query, Body: body})
}

// serveSearch serves the search of a request.
func (s *Site) serveSearch(w http.ResponseWriter, r *http.Request) error {
	body, err := s.searchPage(strings.TrimSpace(r.URL.Query().Get("q")))
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", cached)
	h.Set("X-Robots-Tag", "noindex")
	Protect(h)
	_, err = w.Write(body) //nolint:gosec // the template has escaped the query
	return err
}
