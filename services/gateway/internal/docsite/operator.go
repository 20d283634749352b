package docsite

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"net/mail"
	"net/url"
	"strings"
	"time"

	gtext "github.com/yuin/goldmark/text"

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
var defaultTerms []byte

//go:embed privacy.md
var defaultPrivacy []byte

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
	for _, p := range []struct {
		path, title, description, version string
		own, fallback                     []byte
	}{
		{
			termsPath, "Terms of use", "The terms of use of the Opportunity Data API, which apply to every key and every plan.",
			cmp.Or(r.operator.TermsVersion, api.TermsVersion), r.operator.Terms, defaultTerms,
		},
		{
			privacyPath, "Privacy",
			"Which personal data this installation stores about users of the API and of accounts, and for how long.",
			"", r.operator.Privacy, defaultPrivacy,
		},
	} {
		source := p.own
		if source == nil {
			source = p.fallback
		}
		var text bytes.Buffer
		document := r.markdown.Parser().Parse(gtext.NewReader(source))
		if err := r.markdown.Renderer().Render(&text, source, document); err != nil {
			return fmt.Errorf("rendering %s: %w", p.path, err)
		}
		data := map[string]any{"Body": template.HTML(text.String()),
			"Version": p.version} //nolint:gosec // goldmark drops raw HTML
		if r.operator.Contact != (Contact{}) {
			data["Contact"] = r.operator.Contact
		}
		markdown := markdownPath(p.path)
		r.add(markdown, "text/markdown; charset=utf-8", source, cached)
		shown := page{Path: p.path, Title: p.title, Description: p.description, Source: markdown, cache: cached}
		shown.sections = sectionsOf(shown, document, source)
		if err := r.templatePage(shown, "operator.html", data); err != nil {
			return err
		}
	}
	return nil
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
