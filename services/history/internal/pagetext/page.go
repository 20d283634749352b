// Package pagetext reads the text of web pages, looks for quotes in it, and suggests quotes. It
// does no input or output. Pages are hostile input: time and memory are linear in the size of the
// page, and everything it returns is plain text, never markup.
//
// Read returns a Page, the text that a reader sees, or an Unreadable with the reason why there is
// none. On the text, Find looks for a quote, Nearest for the sentence most like a missing one,
// Suggest for sentences that support facts, and Closed for one that says that the page is closed.
package pagetext

import (
	"bytes"
	"mime"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding/charmap"
)

// MaxBody is the largest page that Read accepts, in bytes.
const MaxBody = 4 << 20

// Page is the readable content of a web page.
type Page struct {
	Title string // at most maxTitle characters
	Text  string // normalized; each block of the page, such as a paragraph or a table row, is a line
}

const maxTitle = 300

// Unreadable is the error of Read.
type Unreadable struct {
	Reason string // for curators: completes "The page is ..." or "The page ..."
}

func (u *Unreadable) Error() string { return "unreadable page: " + u.Reason }

// Read returns the content of a page. The body must be decompressed. Errors are of type
// *Unreadable.
func Read(contentType string, body []byte) (Page, error) {
	if len(body) > MaxBody {
		return Page{}, &Unreadable{"larger than 4 MB"}
	}
	markup, ok := isMarkup(contentType)
	if !ok {
		return Page{}, &Unreadable{"not text"}
	}
	body, ok = decode(contentType, body)
	if !ok {
		return Page{}, &Unreadable{"not text"}
	}
	s := &scanner{}
	if markup {
		if err := s.scan(body); err != nil {
			return Page{}, err
		}
	} else {
		s.plain(string(body))
	}
	page := Page{Title: cut(Normalize(s.title), maxTitle), Text: s.out.String()}
	if reason := s.unreadable(page); reason != "" {
		return Page{}, &Unreadable{reason}
	}
	return page, nil
}

func isMarkup(contentType string) (markup, ok bool) {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil { // such as an empty one, or a malformed parameter
		mediaType, _, _ = strings.Cut(strings.ToLower(contentType), ";")
	}
	switch strings.TrimSpace(mediaType) {
	case "", "text/html", "application/xhtml+xml":
		return true, true
	case "text/plain", "text/markdown":
		return false, true
	}
	return false, false
}

// decode converts a page to UTF-8 the way browsers do. UTF-7 is not an encoding of the web: its
// letters stay letters.
func decode(contentType string, body []byte) (utf8Body []byte, ok bool) {
	encoding, _, _ := charset.DetermineEncoding(body, contentType)
	if encoding == charmap.Windows1252 && utf8.Valid(body) { // the fallback, which has seen 1024 bytes only
		return body, !binary(body)
	}
	decoded, err := encoding.NewDecoder().Bytes(body)
	if err != nil {
		return nil, false
	}
	decoded = bytes.ToValidUTF8(decoded, []byte("\uFFFD"))
	return decoded, !binary(decoded)
}

// binary reports whether the text starts with control characters or is largely undecodable.
func binary(text []byte) bool {
	control := func(r rune) bool { return r < ' ' && !strings.ContainsRune("\t\n\f\r\x1b", r) }
	if bytes.ContainsFunc(text[:min(len(text), 1024)], control) {
		return true
	}
	return bytes.Count(text, []byte("\uFFFD")) > utf8.RuneCount(text)/10
}

// Lengths of text, in bytes, below which a page may be a shell for a script or a gate in front of
// the page.
const (
	shellText = 200
	gateText  = 1500
)

var (
	robotGate = regexp.MustCompile(`just a moment\.\.\.|attention required! \| cloudflare` +
		`|checking (your browser|if the site connection)` +
		`|(verify|confirm|prove|sure|check|verifying|checking)( that| if)? ` +
		`you('re| are) (not a (ro)?bot|(a )?human)|are you a (robot|human)` +
		`|enable javascript and cookies|pardon our interruption|unusual traffic|access (to this page has been )?denied` +
		`|incapsula incident|ddos protection by|performing (a )?security verification|press (and|&) hold` +
		`|(verifiez|verifier|verifions|confirmez|confirmer|assurer) ` +
		`que vous (etes|n'etes)( bien)?( pas)?( un)? (humain|robot|etre humain)` +
		`|etes-vous un (robot|humain)|je ne suis pas un robot|trafic inhabituel|activite inhabituelle` +
		`|acces (a cette page a ete )?refuse`)
	needsScript = regexp.MustCompile(`(enable|requires?|turn on|without|activer|activez|necessite) java ?script` +
		`|java ?script (is |to be |must be |est |doit etre )?(disabled|required|enabled|desactive|requis|active)`)
)

// unreadable returns the reason not to trust the text of a page, or "". A short page that says it
// is closed is readable.
func (s *scanner) unreadable(p Page) string {
	n := len(p.Text)
	shown := ""
	if n < gateText {
		shown = fold(p.Title + "\n" + p.Text)
	}
	switch {
	case robotGate.MatchString(shown):
		return "asks whether the reader is a robot"
	case s.scripts > 0 && n < shellText, n < gateText && (s.emptyRoot || s.noScript || needsScript.MatchString(shown)):
		if Closed(p) != nil {
			return ""
		}
		return "drawn by a script"
	case n == 0:
		return "empty"
	}
	return ""
}

func cut(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}
