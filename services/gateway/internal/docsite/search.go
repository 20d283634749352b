package docsite

import (
	"cmp"
	"maps"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
)

// The search over all pages. A query is answered from the sections of the pages in memory, without
// an index: they are 300 KB.
const (
	SearchPath = "/docs/search" // costs more than a document from memory

	maxQuery   = 100 // characters
	maxWords   = 12
	maxResults = 20
	excerpt    = 90 // bytes before and after the first word that is found
)

// section is the part of a page below a heading.
type section struct {
	Path, Page, Title string // Path has the anchor

	text    string
	weights map[string]float64 // how much the section is about a word, by its stem
}

// sectionsOf returns the sections of a Markdown page. Blocks before the first heading with an
// anchor belong to the page itself.
func sectionsOf(p page, document ast.Node, source []byte) []section {
	all := []section{{Path: p.Path, Page: p.Title, Title: p.Title, text: p.Description}}
	for n := document.FirstChild(); n != nil; n = n.NextSibling() {
		h, ok := n.(*ast.Heading)
		switch {
		case ok && h.Level > 1:
			all = append(all, section{Path: p.Path + "#" + anchorOf(h), Page: p.Title, Title: plainText(h, source)})
		case !ok:
			last := &all[len(all)-1]
			last.text = strings.TrimPrefix(last.text+" "+plainText(n, source), " ")
		}
	}
	for i := range all {
		all[i].weigh()
	}
	for word := range count(p.Description) {
		all[0].weights[word] += 0.7
	}
	return all
}

// weigh sets the weights. The title counts most, then that of the page, then each occurrence in the
// text less than the one before.
func (s *section) weigh() {
	s.weights = map[string]float64{}
	for word, n := range count(s.text) {
		s.weights[word] = float64(n) / float64(n+2)
	}
	for i, title := range []string{s.Page, s.Title} {
		words := count(title)
		for word := range words {
			s.weights[word] += float64(i+1) / math.Sqrt(float64(len(words)))
		}
	}
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

// result is a section that has a word of the query, which is Match, between the texts around it.
type result struct {
	section

	Before, Match, After string
	rank                 float64
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
	first := regexp.MustCompile(`(?i)(?:^|[^\pL\pN])((?:` + strings.Join(words, "|") + `)[\pL\pN]*)`)
	for i := range all {
		all[i].excerpt(first)
	}
	return all
}

// rank returns the weight of a word or, if greater, of one that begins with it. It is 0 if the
// section has neither.
func (s section) rank(word string) float64 {
	rank := s.weights[word]
	for w, weight := range s.weights {
		if len(word) > 3 && strings.HasPrefix(w, word) {
			rank = max(rank, weight)
		}
	}
	return rank
}

// excerpt sets the text around the first match of a pattern's group, or the beginning.
func (r *result) excerpt(pattern *regexp.Regexp) {
	at, end := 0, 0
	if match := pattern.FindStringSubmatchIndex(r.text); match != nil {
		at, end = match[2], match[3]
	}
	from, to := max(0, at-excerpt), min(len(r.text), end+excerpt)
	// the bounds may split characters
	r.Before, r.Match, r.After = strings.ToValidUTF8(r.text[from:at], ""), r.text[at:end],
		strings.ToValidUTF8(r.text[end:to], "")
	if from > 0 {
		r.Before = "… " + r.Before
	}
	if to < len(r.text) {
		r.After += " …"
	}
}

func (s *Site) serveSearch(w http.ResponseWriter, r *http.Request) error {
	query := strings.TrimSpace(r.URL.Query().Get("q"))
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
		return err
	}
	about := entry{Path: SearchPath, Title: "Search the documentation"}
	content, err := s.layoutPage(page{entry: about, Query: query, Body: body})
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", cached)
	h.Set("X-Robots-Tag", "noindex")
	Protect(h)
	_, err = w.Write(content) //nolint:gosec // the template has escaped the query
	return err
}
