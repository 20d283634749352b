package notices

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/mail"
)

// Announcement is a mail from the operator to every person. ID, Kind, Subject and Text identify it: it is sent once.
type Announcement struct {
	ID      string
	Kind    AnnouncementKind
	Subject string
	Text    string // paragraphs, separated by empty lines
}

// AnnouncementKind is the occasion of an announcement.
type AnnouncementKind string

const (
	TermsChange AnnouncementKind = "terms"      // sent to every person
	APIChanged  AnnouncementKind = "api-change" // sent to each person who wants the notice APIChange
)

// Progress reports how many mails of an announcement are queued.
type Progress struct {
	CreatedAt  *time.Time // nil if it does not exist
	FinishedAt *time.Time // when the last mail was posted, or nil
	Recipients int        // people who got or will get it
	Posted     int
}

const (
	maxID      = 64
	maxSubject = 150
	maxText    = 10_000 // characters
	maxLine    = 2_000
)

var (
	slug       = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	emptyLines = regexp.MustCompile(`\n{3,}`)
)

// Check validates an announcement and returns its canonical form.
func (a Announcement) Check() (Announcement, error) {
	if len(a.ID) > maxID || !slug.MatchString(a.ID) {
		return a, account.Invalid("id", fmt.Sprintf("must be at most %d lower-case letters, digits and single hyphens, such as terms-2027-01", maxID))
	}
	if a.Kind != TermsChange && a.Kind != APIChanged {
		return a, account.Invalid("kind", fmt.Sprintf("must be %s or %s", TermsChange, APIChanged))
	}
	var err error
	if a.Subject, err = account.Line("subject", a.Subject, maxSubject); err != nil {
		return a, err
	}
	a.Text = strings.TrimSpace(strings.ReplaceAll(a.Text, "\r\n", "\n"))
	if n := utf8.RuneCountInString(a.Text); n < 1 || n > maxText {
		return a, account.Invalid("text", fmt.Sprintf("must have 1 to %d characters", maxText))
	}
	lines := strings.Split(a.Text, "\n")
	for i, line := range lines {
		if lines[i] = strings.TrimSpace(line); lines[i] == "" {
			continue
		}
		if lines[i], err = account.Line("text", line, maxLine); err != nil {
			return a, account.Invalid("text", fmt.Sprintf("has an invalid line %d: a line has at most %d characters, "+
				"none of them a control or invisible character, and no API key", i+1, maxLine))
		}
	}
	a.Text = emptyLines.ReplaceAllString(strings.Join(lines, "\n"), "\n\n")
	return a, nil
}

// Mail returns the mail to an address.
func (a Announcement) Mail(to string) mail.Message {
	template := "terms-change"
	if a.Kind == APIChanged {
		template = "api-change"
	}
	return mail.Message{To: to, Template: template, Data: map[string]string{"subject": a.Subject, "text": a.Text}}
}
