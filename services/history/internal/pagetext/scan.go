package pagetext

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

const (
	maxDepth = 512     // of block elements; the limit of browsers
	bigTag   = 1 << 10 // bytes of a tag after which the tokenizer is replaced
)

// kind is the way to read the text of an element. Elements without one are inline: they do not
// separate words.
type kind uint8

const (
	block   kind = 1 << iota // starts and ends a line
	cell                     // separates words
	void                     // has no content
	skipped                  // has no visible text
	opaque                   // end tags inside do not end elements outside
)

var kinds = func() map[string]kind {
	all := map[string]kind{}
	for k, names := range map[kind]string{
		block: "address article aside blockquote body caption center dd details div dl dt fieldset figcaption figure " +
			"footer form h1 h2 h3 h4 h5 h6" +
			" header hgroup html legend li main menu nav ol p plaintext pre search section summary table tbody tfoot thead " +
			"tr ul xmp",
		block | void:     "br hr",
		block | skipped:  "dialog",
		block | cell:     "td th",
		cell:             "button label",
		void:             "area base col embed img input link meta param source track wbr",
		skipped:          "audio canvas datalist del object s strike video",
		skipped | opaque: "iframe noembed noframes noscript script select style svg template textarea title",
	} {
		for _, name := range strings.Fields(names) {
			all[name] = k
		}
	}
	return all
}()

// endedBy lists the elements whose start ends an open element without an end tag. Any block ends a
// paragraph.
var endedBy = map[string]string{
	"li": " li ", "dt": " dt dd ", "dd": " dt dd ", "tr": " tr tbody tfoot ", "thead": " tbody tfoot ",
	"tbody": " tbody tfoot ",
	"td":    " td th tr tbody tfoot ", "th": " td th tr tbody tfoot ",
}

// roots are the ids of elements that frameworks fill by script.
var roots = map[string]bool{"root": true, "app": true, "__next": true, "__nuxt": true, "___gatsby": true,
	"app-root": true, "main-app": true, "react-root": true}

// element is an open element: a block, or anything inside a hidden one.
type element struct {
	name   string
	kind   kind
	hidden bool
	root   bool // of a framework
	offset int  // of its text
}

// scanner collects the visible text of a page. It keeps a stack of open elements, as a parser does,
// to find the end of hidden ones. It is not a parser, because the tree of a hostile page is larger
// than the page by orders of magnitude.
type scanner struct {
	tokens *html.Tokenizer
	out    strings.Builder // lines
	line   strings.Builder // not normalized
	title  string
	open   []element
	hidden int // hidden elements in open
	svg    int // images in open
	size   int // of the text so far

	scripts   int
	noScript  bool // the page says that it needs scripts
	emptyRoot bool
}

func (s *scanner) scan(body []byte) error {
	s.tokens = html.NewTokenizer(bytes.NewReader(body))
	for {
		tag := s.tokens.Next()
		raw := len(s.tokens.Raw())
		body = body[raw:]
		switch tag {
		case html.ErrorToken:
			for len(s.open) > 0 {
				s.pop(len(s.open) - 1)
			}
			s.endLine()
			if err := s.tokens.Err(); !errors.Is(err, io.EOF) {
				return &Unreadable{"not readable as HTML"}
			}
			return nil
		case html.TextToken:
			s.text(s.tokens.Text())
		case html.EndTagToken:
			name, _ := s.tokens.TagName()
			s.end(atom.String(name))
		case html.StartTagToken, html.SelfClosingTagToken:
			name, attributes := s.tokens.TagName()
			s.start(atom.String(name), tag == html.SelfClosingTagToken, attributes)
			if len(s.open) > maxDepth {
				return &Unreadable{"too deeply nested"}
			}
			if raw > bigTag {
				s.restart(string(name), body)
			}
		}
	}
}

// restart replaces the tokenizer after the start tag of the named element. At each tag, a tokenizer
// clears its map of attribute names, which takes as long as clearing the most names it ever had.
func (s *scanner) restart(name string, rest []byte) {
	if s.svg > 0 { // where no element has raw text
		name = "g"
	}
	s.tokens = html.NewTokenizer(io.MultiReader(strings.NewReader("<"+name+">"), bytes.NewReader(rest)))
	s.tokens.Next()
}

// plain reads plain text. An empty line ends a block.
func (s *scanner) plain(text string) {
	for _, paragraph := range strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n\n") {
		s.line.WriteString(paragraph)
		s.endLine()
	}
}

func (s *scanner) text(text []byte) {
	if s.hidden == 0 {
		s.size += len(bytes.TrimSpace(text))
		s.line.Write(text)
		return
	}
	switch inner := s.open[len(s.open)-1].name; {
	case inner == "title" && s.hidden == 1 && s.title == "":
		s.title = string(text)
	case inner == "noscript" && s.hidden == 1:
		s.noScript = s.noScript || needsScript.MatchString(fold(string(text[:min(len(text), gateText)])))
	}
}

func (s *scanner) start(name string, selfClosing, hasAttributes bool) {
	k := kinds[name]
	e := element{name: name, kind: k, offset: s.size}
	var data bool
	if hasAttributes {
		data = s.attributes(&e)
		k = e.kind
	}
	e.hidden = e.hidden && name != "html" && name != "body" || k&skipped != 0 // scripts show a hidden body
	if name == "script" && !data {
		s.scripts++
	}
	if s.svg > 0 {
		s.tokens.NextIsNotRawText() // a self-closing <title/> of an image does not hide the rest of the page
	}
	if s.inOpaque() {
		if k&opaque != 0 && (s.svg == 0 || !selfClosing) {
			s.push(e)
		}
		return
	}
	if k&block != 0 {
		s.endImplied(name)
	}
	s.separate(k)
	if k&void == 0 && (k&block != 0 || e.hidden || s.hidden > 0) && (k != 0 || !selfClosing) {
		s.push(e)
	}
}

// inOpaque reports whether the innermost element is opaque. Only opaque elements are pushed inside
// it.
func (s *scanner) inOpaque() bool { return len(s.open) > 0 && s.open[len(s.open)-1].kind&opaque != 0 }

func (s *scanner) push(e element) {
	s.open = append(s.open, e)
	if e.hidden {
		s.hidden++
	}
	if e.name == "svg" {
		s.svg++
	}
}

// attributes reads the attributes of a start tag. It reports whether a script is data.
func (s *scanner) attributes(e *element) (data bool) {
	dialog := e.name == "dialog"
	for more := true; more; {
		var key, value []byte
		key, value, more = s.tokens.TagAttr()
		switch string(key) {
		case "hidden":
			e.hidden = e.hidden || !strings.EqualFold(string(value), "until-found")
		case "style":
			style := strings.ToLower(strings.Join(strings.Fields(string(value[:min(len(value), bigTag)])), ""))
			e.hidden = e.hidden || strings.Contains(style, "display:none") ||
				strings.Contains(style, "visibility:hidden")
		case "id":
			e.root = roots[string(value)]
		case "type":
			data = bytes.Contains(value, []byte("json"))
		case "open":
			dialog = false
		}
	}
	if e.name == "dialog" && !dialog {
		e.kind = block
	}
	return data
}

// end handles an end tag. As in browsers, the end of an inline element does not end a block inside
// it.
func (s *scanner) end(name string) {
	k := kinds[name]
	for i := len(s.open) - 1; i >= 0; i-- {
		e := &s.open[i]
		if e.name == name {
			s.pop(i)
			break
		}
		if e.kind&opaque != 0 || e.kind&block != 0 && k&block == 0 {
			break
		}
	}
	s.separate(k)
}

// endImplied ends the elements that the start of a block ends.
func (s *scanner) endImplied(name string) {
	for i := len(s.open) - 1; i >= 0; i-- {
		e := &s.open[i]
		if e.kind&block == 0 {
			continue
		}
		if e.name != "p" && !strings.Contains(endedBy[e.name], " "+name+" ") {
			return
		}
		s.pop(i)
	}
}

// pop ends the elements from open[i] on.
func (s *scanner) pop(i int) {
	for _, e := range s.open[i:] {
		if e.hidden {
			s.hidden--
		}
		if e.name == "svg" {
			s.svg--
		}
		if e.root && e.offset == s.size {
			s.emptyRoot = true
		}
	}
	s.open = s.open[:i]
}

func (s *scanner) separate(k kind) {
	switch {
	case s.hidden > 0:
	case k&cell != 0:
		s.line.WriteByte(' ')
	case k&block != 0:
		s.endLine()
	}
}

func (s *scanner) endLine() {
	if s.line.Len() == 0 {
		return
	}
	if text := Normalize(s.line.String()); text != "" {
		if s.out.Len() > 0 {
			s.out.WriteByte('\n')
		}
		s.out.WriteString(text)
	}
	s.line.Reset()
}
