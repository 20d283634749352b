package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"time"
	"unicode/utf8"

	"opportunity.internal/services/gateway/internal/docsite"
)

// maxText limits the size of the operator's texts in bytes.
const maxText = 1 << 20

// termsVersion is the allowed form of a terms version; authquota requires the same.
var termsVersion = regexp.MustCompile(`^[0-9A-Za-z._-]{1,40}$`)

func (c Config) published() (docsite.Operator, error) {
	var errs []error
	setting := func(name string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	o := docsite.Operator{TermsVersion: c.TermsVersion, SellsPlans: c.BillingURL != "", Now: c.Now}
	if o.Now == nil {
		o.Now = time.Now
	}
	var err error
	o.Terms, err = readText(c.TermsFile)
	setting("OPPORTUNITY_TERMS_FILE", err)
	o.Privacy, err = readText(c.PrivacyFile)
	setting("OPPORTUNITY_PRIVACY_FILE", err)
	o.Contact, err = docsite.ParseContact(c.Contact)
	setting("OPPORTUNITY_CONTACT", err)
	o.SecurityContact, err = docsite.ParseContact(c.SecurityContact)
	setting("OPPORTUNITY_SECURITY_CONTACT", err)
	if c.TermsFile != "" && c.TermsVersion == "" {
		setting("OPPORTUNITY_TERMS_VERSION", errors.New("missing: set a version of your terms, such as their date"))
	}
	if c.TermsVersion != "" && !termsVersion.MatchString(c.TermsVersion) {
		setting("OPPORTUNITY_TERMS_VERSION", errors.New("must have 1 to 40 letters, digits, dots, hyphens or underscores"))
	}
	return o, errors.Join(errs...)
}

func readText(name string) ([]byte, error) {
	if name == "" {
		return nil, nil
	}
	text, err := os.ReadFile(name)
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxText:
		return nil, fmt.Errorf("%s is larger than %d KiB", name, maxText>>10)
	case len(bytes.TrimSpace(text)) == 0:
		return nil, fmt.Errorf("%s is empty", name)
	case !utf8.Valid(text):
		return nil, fmt.Errorf("%s is not UTF-8", name)
	}
	return text, nil
}
