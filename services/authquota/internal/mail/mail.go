// Package mail is what the service writes to people: a template for each occasion, in text and in HTML from one source, so that
// both always say the same.
//
// Who posts a mail names its template and its data; a mail that cannot be written as asked is refused there, not when it is sent.
package mail

import (
	"errors"
	"fmt"
	netmail "net/mail"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Message asks for a mail: to whom, by which template, with which data. Data has exactly what the template names.
type Message struct {
	To, Template string
	Data         map[string]string
}

// Letter is a mail as it is sent, but for its headers.
type Letter struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
	HTML    string `json:"html"`
}

// Writer writes letters.
type Writer struct {
	publicURL string
	contact   string
}

// NewWriter makes a Writer whose letters lead to the pages under publicURL.
func NewWriter(publicURL string) Writer { return Writer{publicURL: publicURL} }

// From is the Writer of an operator to whom people can write there: an e-mail address or an https URL. Empty means that it is not known.
func (w Writer) From(contact string) Writer {
	w.contact = contact
	return w
}

// operator is who runs the service, as a letter says it.
func (w Writer) operator() string {
	if w.contact == "" {
		return "the operator of the service"
	}
	return "the operator of the service (" + w.contact + ")"
}

// Page is the address of one of our pages, for a link.
func (w Writer) Page(path string) string { return w.publicURL + path }

// Templates are the names of all templates, in order.
func Templates() []string { return slices.Clone(names) }

// Needs are the names of the data of a template, in order; nil where there is no such template.
func Needs(template string) []string { return slices.Clone(sources[template].needs) }

// Write writes a letter. It refuses an address that is not one, an unknown template, and data that are missing, superfluous or,
// where a link is meant, no link: each is a mistake of the caller's, for a test to find.
func (w Writer) Write(m Message) (Letter, error) {
	if err := Address(m.To); err != nil {
		return Letter{}, err
	}
	source, known := sources[m.Template]
	if !known {
		return Letter{}, fmt.Errorf("there is no mail %q", m.Template)
	}
	data := make(map[string]string, len(m.Data))
	for name, value := range m.Data {
		if !slices.Contains(source.needs, name) {
			return Letter{}, fmt.Errorf("mail %s knows no %q", m.Template, name)
		}
		if slices.Contains(links, name) && !isLink(value) {
			return Letter{}, fmt.Errorf("mail %s: %s is no link", m.Template, name)
		}
		data[name] = line(value)
	}
	for _, name := range source.needs {
		if _, given := data[name]; !given {
			return Letter{}, fmt.Errorf("mail %s needs %q", m.Template, name)
		}
	}
	return source.write(w, m.To, data)
}

// links are the data that are addresses of pages.
var links = []string{"link", "cancel"}

func isLink(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && !strings.ContainsFunc(s, unicode.IsSpace)
}

const maxLine = 500

// line makes a datum fit for any place of a mail, its subject included: one line, short, without characters that steer what is
// around them. It never refuses, because what a browser calls itself must not keep anybody from signing in.
func line(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' || r == utf8.RuneError {
			return ' '
		}
		return r
	}, s)
	if utf8.RuneCountInString(s) > maxLine {
		s = string([]rune(s)[:maxLine]) + "…"
	}
	if s = strings.TrimSpace(s); s == "" {
		return "unknown"
	}
	return s
}

// Address refuses what is no plain e-mail address, such as one with a name, with a comment or with a line break.
func Address(s string) error {
	a, err := netmail.ParseAddress(s)
	if err != nil || a.Address != s || a.Name != "" || len(s) > 254 || strings.ContainsFunc(s, unicode.IsControl) {
		return errors.New("not a plain e-mail address") // s stays out of it: errors are logged
	}
	return nil
}

// Masked is an address as a log may show it: enough to find a pattern, too little to write to.
func Masked(address string) string {
	at := strings.LastIndexByte(address, '@')
	if at < 1 {
		return "…"
	}
	_, first := utf8.DecodeRuneInString(address)
	return address[:first] + "…" + address[at:]
}

// Posted is a mail that waits to be sent.
type Posted struct {
	ID       string
	Template string
	Letter   Letter
	Sealed   bool // the letter does not open: Letter is empty
	At       time.Time
	Attempts int // with the one that begins
}

// NewID makes the id of a mail. Ids made later sort later.
func NewID() string { return "mail_" + strings.ReplaceAll(uuid.Must(uuid.NewV7()).String(), "-", "") }
