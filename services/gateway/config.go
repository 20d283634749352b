package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"regexp"
	"slices"
	"time"
	"unicode/utf8"

	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/certificate"
	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/redisdb"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/gateway/internal/admin"
	"opportunity.internal/services/gateway/internal/docsite"
)

// Config holds the settings of the service.
type Config struct {
	Server    server.Config
	Telemetry telemetry.Config
	Redis     redisdb.Config
	Tokens    peer.Tokens
	Peers     certificate.PeerConfig

	AdminListen  string `env:"OPPORTUNITY_ADMIN_LISTEN" envDefault:"127.0.0.1:8081" doc:"Address of the admin listener, with /readyz of the whole API and the operator API. Never expose it to consumers."`
	PublicURL    string `env:"OPPORTUNITY_PUBLIC_URL,required,notEmpty" doc:"Address under which consumers reach the gateway, without a trailing slash."`
	CatalogURL   string `env:"OPPORTUNITY_CATALOG_URL,required,notEmpty" doc:"Service port of the catalog, without a trailing slash."`
	HistoryURL   string `env:"OPPORTUNITY_HISTORY_URL,required,notEmpty" doc:"Service port of the history service, without a trailing slash."`
	AuthquotaURL string `env:"OPPORTUNITY_AUTHQUOTA_URL,required,notEmpty" doc:"Service port of authquota, without a trailing slash."`

	BillingURL string `env:"OPPORTUNITY_BILLING_URL" doc:"Service port of billing, without a trailing slash. Empty: no plan is sold, and paths below /billing are 404."`

	Peppers         []string `env:"OPPORTUNITY_KEY_PEPPERS,required,notEmpty" doc:"Secret. Peppers that hash API keys: comma-separated, newest first, each at least 32 bytes in hexadecimal (openssl rand -hex 32). New keys use the first. Remove an older pepper only when no key issued under it remains. Set the same value for gateway and authquota."`
	OlderKeys       string   `env:"OPPORTUNITY_OLDER_KEYS" doc:"Form of keys that an earlier system issued, as a regular expression (RE2) for the whole key. The hashes of such keys are imported by operators. Empty: such keys are rejected as malformed. Keys that begin with oda_ never match. Set the same value for gateway and authquota, which warns when an import contains keys that the gateway rejects."`
	OperatorTokens  []string `env:"OPPORTUNITY_OPERATOR_TOKENS" doc:"Secret. Operator tokens of at least 32 characters, comma-separated, each as name:role:token, name:token or token. The audit log records the name. The role is admin, curator, publisher or support; without a role it is admin. A token without a name is shared: the audit log records operator, and the name that the user sends in parentheses. Empty: operator commands are disabled."`
	ServiceCapacity int      `env:"OPPORTUNITY_SERVICE_CAPACITY" envDefault:"50000" doc:"Limit of calls per UTC day for all accounts together."`
	BaseTierShare   int      `env:"OPPORTUNITY_BASE_TIER_SHARE" envDefault:"100" doc:"Largest share of that capacity that accounts of the free tier may use together, in percent. 100: no limit of its own. Set less where everyone can create an account, so that free accounts cannot use the capacity of paying ones."`
	TrustedProxies  []string `env:"OPPORTUNITY_TRUSTED_PROXIES" doc:"Address ranges of trusted proxies, such as 10.0.0.0/8, comma-separated. Their X-Forwarded-For sets the client address, and their trace headers are continued. Behind an unlisted proxy all clients share one address, and the limits on failed sign-ins apply to all of them together."`

	Contact         string `env:"OPPORTUNITY_CONTACT" doc:"Contact of the operator on pages and in mails: an email address or an https URL."`
	SecurityContact string `env:"OPPORTUNITY_SECURITY_CONTACT" doc:"Contact for security reports in /.well-known/security.txt: an email address or an https URL. Empty: OPPORTUNITY_CONTACT. If neither is set, there is no security.txt."`
	TermsFile       string `env:"OPPORTUNITY_TERMS_FILE" doc:"Markdown file with your terms of use, shown at /terms. It is read at startup; raw HTML is dropped. Empty: the terms in this release. Needs OPPORTUNITY_TERMS_VERSION."`
	TermsVersion    string `env:"OPPORTUNITY_TERMS_VERSION" doc:"Version of your terms of use. Change it whenever your terms change: users must then accept the new version before their next key. Empty: the version of the terms in this release. Set the same value for gateway and authquota."`
	PrivacyFile     string `env:"OPPORTUNITY_PRIVACY_FILE" doc:"Markdown file with your privacy notice, shown at /privacy. It is read at startup; raw HTML is dropped. Empty: a notice of what this release stores and for how long."`

	AdminListener net.Listener `env:"-"` // if not nil, replaces AdminListen
	// if not nil, part of the admin /readyz: returns an error until the data of the first start is
	// imported
	Filled func() error     `env:"-"`
	Notes  []string         `env:"-"` // part of the admin /readyz
	Now    func() time.Time `env:"-"` // if not nil, replaces time.Now
	// if not nil, replaces the Redis clock, which must show the same time to all gateways
	RedisNow func() time.Time `env:"-"`
}

func (c Config) baseCapacity() int {
	return max(1, c.ServiceCapacity/100*c.BaseTierShare+c.ServiceCapacity%100*c.BaseTierShare/100)
}

// Validate returns an error that names every invalid setting.
func (c Config) Validate() error {
	errs := []error{
		c.Redis.Validate(), c.Tokens.Validate(slices.Sorted(maps.Keys(c.services()))...),
		config.Address("OPPORTUNITY_PUBLIC_URL", c.PublicURL), config.Address("OPPORTUNITY_CATALOG_URL", c.CatalogURL),
		config.Address("OPPORTUNITY_HISTORY_URL", c.HistoryURL), config.Address("OPPORTUNITY_AUTHQUOTA_URL", c.AuthquotaURL),
		config.Address("OPPORTUNITY_BILLING_URL", c.BillingURL),
		c.Peers.Validate(map[string]string{
			"OPPORTUNITY_CATALOG_URL": c.CatalogURL, "OPPORTUNITY_HISTORY_URL": c.HistoryURL,
			"OPPORTUNITY_AUTHQUOTA_URL": c.AuthquotaURL, "OPPORTUNITY_BILLING_URL": c.BillingURL,
		}),
	}
	if _, err := apikey.Peppers(c.Peppers); err != nil {
		errs = append(errs, fmt.Errorf("OPPORTUNITY_KEY_PEPPERS: %w", err))
	}
	if _, err := apikey.ParseOlderForm(c.OlderKeys); err != nil {
		errs = append(errs, fmt.Errorf("OPPORTUNITY_OLDER_KEYS: %w", err))
	}
	if _, err := admin.ParseTokens(c.OperatorTokens); err != nil {
		errs = append(errs, fmt.Errorf("OPPORTUNITY_OPERATOR_TOKENS: %w", err))
	}
	if _, err := config.Prefixes(c.TrustedProxies); err != nil {
		errs = append(errs, fmt.Errorf("OPPORTUNITY_TRUSTED_PROXIES: %w", err))
	}
	if _, err := c.published(); err != nil {
		errs = append(errs, err)
	}
	if c.ServiceCapacity < 1 {
		errs = append(errs, errors.New("OPPORTUNITY_SERVICE_CAPACITY must be at least 1"))
	}
	if c.BaseTierShare < 1 || c.BaseTierShare > 100 {
		errs = append(errs, fmt.Errorf("OPPORTUNITY_BASE_TIER_SHARE is %d: use a percentage from 1 to 100", c.BaseTierShare))
	}
	return errors.Join(errs...)
}

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
