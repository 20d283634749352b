// Package mail writes the mails of the service. Each has one template, from which both text and
// HTML are generated.
//
// A Message names its template and data. Write makes the whole mail, so that one with missing data
// fails when it is created, not when it is sent.
package mail

import (
	"errors"
	"fmt"
	"maps"
	netmail "net/mail"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"opportunity.internal/pkg/api"
)

// Message is a mail to be written. Data must have the names that the template uses.
type Message struct {
	To, Template string
	Data         map[string]string
}

// Topic returns what the mail is about: everything but its links, which differ each time.
func (m Message) Topic() string {
	data := maps.Clone(m.Data)
	maps.DeleteFunc(data, func(name, _ string) bool { return slices.Contains(links, name) })
	return fmt.Sprintf("%s %q", m.Template, data) // sorted
}

// Urgent reports whether a person who cannot sign in waits for the mail.
func (m Message) Urgent() bool {
	switch m.Template {
	case "confirm-address", "already-have-account", "reset-password", "authenticator-reset-asked":
		return true
	}
	return false
}

// Letter is a written mail, without its headers.
type Letter struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
	HTML    string `json:"html"`
}

// Writer writes letters.
type Writer struct {
	PublicURL string // under which the pages are that letters link to
	Contact   string // of the operator: an email address or an https URL; empty if unknown
}

func (w Writer) operator() string {
	if w.Contact == "" {
		return "the operator of the service"
	}
	return "the operator of the service (" + w.Contact + ")"
}

// Page returns the URL of a page.
func (w Writer) Page(path string) string { return w.PublicURL + path }

// Templates returns the names of all templates, sorted.
func Templates() []string { return slices.Sorted(maps.Keys(sources)) }

// Write returns the letter for m. It returns an error for an invalid address, an unknown template
// and missing data. Each is a programming error.
func (w Writer) Write(m Message) (Letter, error) {
	if err := Address(m.To); err != nil {
		return Letter{}, err
	}
	source, known := sources[m.Template]
	if !known {
		return Letter{}, fmt.Errorf("unknown mail template %q", m.Template)
	}
	data := map[string]string{"site": w.PublicURL, "operator": w.operator()}
	for name, value := range m.Data {
		if name == paragraphs {
			data[name] = lines(value)
		} else {
			data[name] = line(value)
		}
	}
	letter, err := source.write(data)
	letter.To = m.To
	return letter, err
}

// links are the data that differ in two mails about the same.
var links = []string{"link", "cancel"}

const maxLine = 500

// paragraphs is the datum that may have several lines: text of the operator.
const paragraphs = "text"

func lines(s string) string {
	rows := strings.Split(s, "\n")
	for i := range rows {
		rows[i] = printable(rows[i])
	}
	return strings.Join(rows, "\n")
}

// printable replaces the characters that do not belong in a line. It keeps joiners in words and
// emoji.
func printable(s string) string {
	if clean, err := api.Line(s, len(s)); err == nil {
		return clean
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' || r == utf8.RuneError {
			return ' '
		}
		return r
	}, s)
}

// line makes a value safe for any part of a mail, including the subject: one short line without
// control characters. It never fails, because an unusual User-Agent must not prevent signing in.
func line(s string) string {
	s = printable(s)
	if utf8.RuneCountInString(s) > maxLine {
		s = string([]rune(s)[:maxLine]) + "…"
	}
	if s = strings.TrimSpace(s); s == "" {
		return "unknown"
	}
	return s
}

const maxAddress = 254 // RFC 5321 section 4.5.3.1

// Address returns an error unless s is a plain email address, without name, comment or line break.
func Address(s string) error {
	a, err := netmail.ParseAddress(s)
	if err != nil || a.Address != s || a.Name != "" || len(s) > maxAddress || strings.ContainsFunc(s, unicode.IsControl) {
		return errors.New("not a plain email address") // without s, because errors are logged
	}
	return nil
}

// Masked shortens an address for logs: enough to see a pattern, not enough to write to it.
func Masked(address string) string {
	at := strings.LastIndexByte(address, '@')
	if at < 1 {
		return "…"
	}
	_, first := utf8.DecodeRuneInString(address)
	return address[:first] + "…" + address[at:]
}

// Posted is a mail waiting to be sent.
type Posted struct {
	ID       string
	Template string
	Letter   Letter
	Sealed   bool // Letter is empty because it could not be decrypted
	At       time.Time
	Attempts int // including the current one
}
