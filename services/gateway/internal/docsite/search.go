package docsite

import (
	"cmp"
	"html/template"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
)

// The search over all pages. A query is answered from the sections of the pages in memory, without
// an index: they are 300 KB.
const (
	SearchPath  = "/docs/search" // costs more than a document from memory
	searchTitle = "Search the documentation"

	maxQuery   = 100 // characters
	maxWords   = 12
	maxResults = 20
	excerpt    = 90 // bytes before and after the first word that is found
)

// section is the part of a page below a heading.
type section struct {
	Path, Page, Title string // Path has the anchor

	text string
	// The number of each word by its stem: of the text and the title of the section, the title of
	// its page, and, at its beginning, what the page is about.
	inText, inTitle, ofPage, about map[string]int
}

// sectionsOf returns the sections of a Markdown page. Blocks before the first heading with an
// anchor belong to the page itself.
func sectionsOf(p page, document ast.Node, source []byte) []section {
	all := []section{{Path: p.Path, Page: p.Title, Title: p.Title}}
	for n := document.FirstChild(); n != nil; n = n.NextSibling() {
		h, ok := n.(*ast.Heading)
		switch {
		case ok && h.Level > 1:
			id, _ := h.AttributeString("id")
			anchor, _ := id.([]byte)
			all = append(all, section{Path: p.Path + "#" + string(anchor), Page: p.Title, Title: string(plainText(h, source))})
		case !ok:
			all[len(all)-1].text += string(textOf(n, source)) + " "
		}
	}
	all[0].text, all[0].about = p.Description+" "+all[0].text, count(p.Description)
	for i := range all {
		s := &all[i]
		s.text = strings.Join(strings.Fields(s.text), " ")
		s.inText, s.inTitle, s.ofPage = count(s.text), count(s.Title), count(p.Title)
	}
	return all
}

func textOf(n ast.Node, source []byte) (out []byte) {
	if n.Type() == ast.TypeInline || !n.HasChildren() || n.FirstChild().Type() == ast.TypeInline {
		return plainText(n, source)
	}
	for child := n.FirstChild(); child != nil; child = child.NextSibling() {
		out = append(append(out, textOf(child, source)...), ' ')
	}
	return out
}

func count(text string) map[string]int {
	words := map[string]int{}
	for _, w := range stems(text) {
		words[w]++
	}
	return words
}

func stems(text string) (all []string) {
	for word := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return !isWord(r) }) {
		all = append(all, stem(word))
	}
	return all
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

var endings = []string{"ations", "ation", "ings", "ing", "ions", "ion", "ies", "ied", "ed", "es", "s", "e", "y"}

// stem removes the ending of an English word, so that forms of it are equal.
func stem(word string) string {
	for _, e := range endings {
		if rest, found := strings.CutSuffix(word, e); found && len(rest) > 2 && !strings.HasSuffix(word, "ss") {
			return strings.TrimSuffix(rest, "e")
		}
	}
	return word
}

// common are the words of questions that say nothing about the subject.
var common = count("a an and any are at be can do does for from get how i if in is it many me much my of on or one " +
	"the there they this to what when where which who why will with you your")

type result struct {
	section

	Excerpt template.HTML
	rank    float64
}

// search returns for each page the section that fits a query best, the best first.
func search(sections []section, query string) []result {
	words := stems(query)
	if rare := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return common[w] > 0 }); len(rare) > 0 {
		words = rare
	}
	words = words[:min(len(words), maxWords)]
	ranks := make([]float64, len(sections))
	for _, w := range words {
		found := map[int]float64{}
		for i, s := range sections {
			if n := s.rank(w); n > 0 {
				found[i] = n
			}
		}
		for i, n := range found { // a rare word says more
			ranks[i] += n * math.Log(1+float64(len(sections))/float64(len(found)))
		}
	}
	best := map[string]result{} // by page
	for i, s := range sections {
		if at, _, _ := strings.Cut(s.Path, "#"); ranks[i] > best[at].rank {
			best[at] = result{section: s, rank: ranks[i]}
		}
	}
	all := slices.SortedFunc(maps.Values(best), func(a, b result) int {
		return cmp.Or(cmp.Compare(b.rank, a.rank), cmp.Compare(a.Path, b.Path))
	})
	all = all[:min(len(all), maxResults)]
	for i := range all {
		all[i].Excerpt = all[i].excerpt(words)
	}
	return all
}

// rank is 0 if the section does not have the word or one that begins with it. The title counts
// most, then that of the page.
func (s section) rank(word string) float64 {
	n := float64(occurrences(s.inText, word))
	rank := n / (n + 2)
	if occurrences(s.inTitle, word) > 0 {
		rank += 2 / math.Sqrt(float64(len(s.inTitle)))
	}
	if occurrences(s.ofPage, word) > 0 {
		rank += 1 / math.Sqrt(float64(len(s.ofPage)))
	}
	if occurrences(s.about, word) > 0 {
		rank += 0.7
	}
	return rank
}

// occurrences counts a word, and if there is none, those that begin with it.
func occurrences(words map[string]int, word string) int {
	n := words[word]
	if n > 0 || len(word) < 4 {
		return n
	}
	for w, of := range words {
		if strings.HasPrefix(w, word) {
			n += of
		}
	}
	return n
}

// excerpt returns the text around the first word that the text has, with this word marked.
func (s section) excerpt(words []string) template.HTML {
	lower, at := strings.ToLower(s.text), -1
	for _, w := range words {
		if i := strings.Index(" "+lower, " "+w); i >= 0 && (at < 0 || i < at) {
			at = i
		}
	}
	end := 0
	if at < 0 || len(lower) != len(s.text) { // lower case may be longer in UTF-8
		at = 0
	} else {
		end = len(s.text) - len(strings.TrimLeftFunc(s.text[at:], isWord))
	}
	from, to := boundary(s.text, at-excerpt), boundary(s.text, end+excerpt)
	var out strings.Builder
	if from > 0 {
		out.WriteString("… ")
	}
	out.WriteString(template.HTMLEscapeString(s.text[from:at]))
	if end > at {
		out.WriteString("<mark>" + template.HTMLEscapeString(s.text[at:end]) + "</mark>")
	}
	out.WriteString(template.HTMLEscapeString(s.text[max(at, end):to]))
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

func (s *Site) searchPage(query string) ([]byte, error) {
	if utf8.RuneCountInString(query) > maxQuery {
		query = string([]rune(query)[:maxQuery])
	}
	var all []section
	documents := *s.documents.Load()
	for _, path := range slices.Sorted(maps.Keys(documents)) {
		all = append(all, documents[path].sections...)
	}
	body, err := s.body("search.html", map[string]any{"Query": query, "Results": search(all, query)})
	if err != nil {
		return nil, err
	}
	return s.layoutPage(page{Path: SearchPath, Title: searchTitle, Query: query, Body: body})
}

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
