package docsite

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
)

// Operator holds the texts and contacts that the operator of an installation publishes. The zero
// value has the default texts and no contact.
type Operator struct {
	Terms, Privacy  []byte // Markdown; nil: the default texts
	TermsVersion    string // empty: api.TermsVersion
	Contact         Contact
	SecurityContact Contact // zero: Contact
	SellsPlans      bool    // the installation sells the plans with a price
	Now             func() time.Time
}

// Contact is the link and the text of a contact; the zero value is none.
type Contact struct{ URL, Text string }

// ParseContact reads an email address or an https URL; an empty string is no contact.
func ParseContact(s string) (Contact, error) {
	if s == "" {
		return Contact{}, nil
	}
	if u, err := url.Parse(s); err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil {
		return Contact{s, s}, nil
	}
	address := strings.TrimPrefix(s, "mailto:")
	if a, err := mail.ParseAddress(address); err != nil || a.Address != address {
		return Contact{}, fmt.Errorf("invalid contact %q: use an email address or an https URL", s)
	}
	return Contact{(&url.URL{Scheme: "mailto", Opaque: address}).String(), address}, nil
}

//go:embed terms.md
var defaultTerms string

//go:embed privacy.md
var defaultPrivacy string

// Paths of the operator's pages and of security.txt (RFC 9116).
const (
	termsPath    = "/terms"
	privacyPath  = "/privacy"
	securityPath = "/.well-known/security.txt"
)

// securityLife is the time to the expiry of security.txt, counted from the UTC day on which it is
// read. RFC 9116 recommends less than a year.
const securityLife = 180 * 24 * time.Hour

// operatorPages renders what the operator publishes. Raw HTML and script URLs in the sources are
// dropped.
func (r rendering) operatorPages() error {
	if text := r.securityText(); text != nil {
		r.add(securityPath, "text/plain; charset=utf-8", text, cached)
	}
	contact := "The operator of this installation has not published a contact."
	if c := r.operator.Contact; c != (Contact{}) {
		contact = fmt.Sprintf("Contact the operator: [%s](%s)", c.Text, c.URL)
	}
	contact = "\n\n## Contact {#contact}\n\n" + contact + "\n"
	version := cmp.Or(r.operator.TermsVersion, api.TermsVersion)
	terms := cmp.Or(string(r.operator.Terms), defaultTerms) + "\n\nVersion " + version + contact
	privacy := cmp.Or(string(r.operator.Privacy), defaultPrivacy) + contact
	return errors.Join(
		r.markdownPage(page{cache: cached, entry: entry{
			Path: termsPath, Title: "Terms of use",
			Description: "The terms of use of the Opportunity Data API, which apply to every key and every plan.",
		}}, terms),
		r.markdownPage(page{cache: cached, entry: entry{
			Path: privacyPath, Title: "Privacy",
			Description: "Which personal data this installation stores about users of the API and of accounts, and for " +
				"how long.",
		}}, privacy))
}

func (s *Site) securityText() []byte {
	contact := cmp.Or(s.operator.SecurityContact, s.operator.Contact)
	if contact == (Contact{}) {
		return nil
	}
	expires := s.operator.Now().UTC().Truncate(24 * time.Hour).Add(securityLife)
	return fmt.Appendf(nil, "Contact: %s\nExpires: %s\nPreferred-Languages: en\nCanonical: %s%s\n",
		contact.URL, expires.Format(time.RFC3339), s.publicURL, securityPath)
}
