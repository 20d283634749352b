package authquota

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"time"

	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/certificate"
	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/redisdb"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/courier"
	"opportunity.internal/services/authquota/internal/mail"
)

// Config holds all settings of the service.
type Config struct {
	Server    server.Config
	Telemetry telemetry.Config
	Database  database.Config
	Redis     redisdb.Config
	Tokens    peer.Tokens
	Callers   peer.Callers
	TLS       certificate.ServerConfig
	Peers     certificate.PeerConfig
	Mail      courier.Config

	PublicURL   string   `env:"OPPORTUNITY_PUBLIC_URL,required,notEmpty" doc:"Address under which consumers reach the gateway, without a trailing slash."`
	Peppers     []string `env:"OPPORTUNITY_KEY_PEPPERS,required,notEmpty" doc:"Secret. Peppers that hash API keys: comma-separated, newest first, each at least 32 bytes in hexadecimal (openssl rand -hex 32). New keys use the first. Remove an older pepper only when no key issued under it remains. Set the same value for gateway and authquota."`
	OlderKeys   string   `env:"OPPORTUNITY_OLDER_KEYS" doc:"Form of keys that an earlier system issued, as a regular expression (RE2) for the whole key. The hashes of such keys are imported by operators. Empty: such keys are rejected as malformed. Keys that begin with oda_ never match. Set the same value for gateway and authquota, which warns when an import contains keys that the gateway rejects."`
	Encryption  []string `env:"OPPORTUNITY_ENCRYPTION_KEYS,required,notEmpty" doc:"Secret. Keys that encrypt authenticator seeds and mails in the outbox: comma-separated, newest first, each 32 bytes in hexadecimal (openssl rand -hex 32). At startup, data under an older key is encrypted again with the newest; after that you can remove the older key."`
	Contact     string   `env:"OPPORTUNITY_CONTACT" doc:"Contact of the operator on pages and in mails: an email address or an https URL."`
	Tiers       string   `env:"OPPORTUNITY_TIERS" doc:"Overrides of the tier table as requests per minute/requests per day/records per page, such as free=10/100/10,developer=60/1000/50. Omitted tiers keep their limits. A change applies to requests and on the pages of the gateway within 5 seconds."`
	BillingURL  string   `env:"OPPORTUNITY_BILLING_URL" doc:"Service port of billing, without a trailing slash. Empty: no plan is sold, and paths below /billing are 404."`
	TestKeys    bool     `env:"OPPORTUNITY_TEST_KEYS" envDefault:"true" doc:"Approve one test key (oda_test_) for each account of the free tier automatically, and 20 a day for a network (/24, /48). An operator approves further ones and, with false, every key."`
	AutoApprove bool     `env:"OPPORTUNITY_AUTO_APPROVE" envDefault:"false" doc:"Approve key requests automatically. For local use; 'opportunity up' sets it."`

	TermsVersion string `env:"OPPORTUNITY_TERMS_VERSION" doc:"Version of your terms of use. Change it whenever your terms change: users must then accept the new version before their next key. Empty: the version of the terms in this release. Set the same value for gateway and authquota."`

	Now func() time.Time `env:"-"` // nil: time.Now
	// run no background loops; for tests of pages, which read the outbox themselves
	NoLoops bool `env:"-"`
	// after which the database does not respond; 0: 0.9 seconds; tests on a busy machine need more
	ResponseTimeout time.Duration `env:"-"`
}

// Validate returns an error that lists every invalid setting.
func (c Config) Validate() error {
	errs := []error{
		c.Database.Validate(), c.Redis.Validate(), c.Tokens.Validate(c.peers()...), c.Callers.Validate(peer.Authquota),
		c.TLS.Validate(), c.Peers.Validate(map[string]string{"OPPORTUNITY_BILLING_URL": c.BillingURL}), c.Mail.Validate(),
		config.Address("OPPORTUNITY_PUBLIC_URL", c.PublicURL),
		config.Address("OPPORTUNITY_BILLING_URL", c.BillingURL),
	}
	if c.TermsVersion != "" && !termsVersion.MatchString(c.TermsVersion) {
		errs = append(errs, fmt.Errorf(
			"OPPORTUNITY_TERMS_VERSION: %q must have 1 to 40 letters, digits, dots, hyphens or underscores",
			c.TermsVersion))
	}
	_, err := c.parse()
	return errors.Join(append(errs, contact(c.Contact), err)...)
}

// settings are the parsed settings.
type settings struct {
	peppers [][]byte
	older   apikey.OlderForm
	box     accountdb.Box
	tiers   account.TierTable
}

func (c Config) parse() (s settings, err error) {
	var errs [4]error
	s.peppers, errs[0] = apikey.Peppers(c.Peppers)
	s.older, errs[1] = apikey.ParseOlderForm(c.OlderKeys)
	s.box, errs[2] = accountdb.ParseBox(c.Encryption)
	s.tiers, errs[3] = account.ParseTiers(c.Tiers)
	for i, name := range []string{"KEY_PEPPERS", "OLDER_KEYS", "ENCRYPTION_KEYS", "TIERS"} {
		if errs[i] != nil {
			errs[i] = fmt.Errorf("OPPORTUNITY_%s: %w", name, errs[i])
		}
	}
	return s, errors.Join(errs[:]...)
}

func (c Config) peers() []string {
	if c.BillingURL == "" {
		return nil
	}
	return []string{peer.Billing}
}

var termsVersion = regexp.MustCompile(`^[0-9A-Za-z._-]{1,40}$`)

func contact(s string) error {
	if u, err := url.Parse(s); s == "" || mail.Address(s) == nil || err == nil && u.Scheme == "https" && u.Host != "" &&
		u.User == nil {
		return nil
	}
	return errors.New("OPPORTUNITY_CONTACT must be an email address or an https URL")
}
