package gateway

import (
	"errors"
	"fmt"
	"net"
	"time"

	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/redisdb"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/gateway/internal/operator"
)

// Config is everything that the service can be told.
type Config struct {
	Server    server.Config
	Telemetry telemetry.Config
	Redis     redisdb.Config
	Tokens    peer.Tokens

	AdminListen  string `env:"OPPORTUNITY_ADMIN_LISTEN" envDefault:"127.0.0.1:8081" doc:"Address of the operators' listener: /readyz of the whole API, and the verbs. Never expose it to consumers."`
	PublicURL    string `env:"OPPORTUNITY_PUBLIC_URL,required,notEmpty" doc:"Address under which consumers reach the gateway, without a trailing slash."`
	CatalogURL   string `env:"OPPORTUNITY_CATALOG_URL,required,notEmpty" doc:"Service port of the catalog, without a trailing slash."`
	HistoryURL   string `env:"OPPORTUNITY_HISTORY_URL,required,notEmpty" doc:"Service port of the history service, without a trailing slash."`
	AuthquotaURL string `env:"OPPORTUNITY_AUTHQUOTA_URL,required,notEmpty" doc:"Service port of authquota, without a trailing slash."`

	BillingURL string `env:"OPPORTUNITY_BILLING_URL" doc:"Service port of billing, without a trailing slash. Where it is empty nothing is sold, and there is nothing below /billing."`

	Peppers         []string `env:"OPPORTUNITY_KEY_PEPPERS,required,notEmpty" doc:"Secret. What keys are hashed with before they are kept: comma-separated, newest first, each at least 32 bytes in hexadecimal (openssl rand -hex 32). New keys are kept under the first; one may be taken away once no key that was issued under it is left. Gateway and authquota need the same."`
	OlderKeys       string   `env:"OPPORTUNITY_OLDER_KEYS" doc:"Form of keys that something else issued before, as a regular expression (RE2) for the whole key. Such keys are looked up by the hashes that operators import. If it is not set, they are rejected as malformed. It must not match keys of our own form. Gateway and authquota need the same: authquota warns at an import of keys that the gateway will reject."`
	OperatorTokens  []string `env:"OPPORTUNITY_OPERATOR_TOKENS" doc:"Secret. Tokens of operators, comma-separated, each as name:token or token, of at least 32 characters. The name is recorded with what is done; a token without one is shared, and its users say who they are. Without any the verbs are closed."`
	ServiceCapacity int      `env:"OPPORTUNITY_SERVICE_CAPACITY" envDefault:"50000" doc:"Calls that all accounts together may make in one UTC day."`
	TrustedProxies  []string `env:"OPPORTUNITY_TRUSTED_PROXIES" doc:"Address ranges, as 10.0.0.0/8, of the proxies in front whose X-Forwarded-For is believed, comma-separated. Behind a proxy that is not among them the whole world is one network: whoever guesses there slows down everybody who signs in."`

	Contact         string `env:"OPPORTUNITY_CONTACT" doc:"Where people write to the operator: an e-mail address or an https URL. Pages and mails name it where they say to write to the operator."`
	SecurityContact string `env:"OPPORTUNITY_SECURITY_CONTACT" doc:"Where people report weaknesses: an e-mail address or an https URL, for /.well-known/security.txt. Empty: OPPORTUNITY_CONTACT. If neither is set, there is no security.txt."`
	TermsFile       string `env:"OPPORTUNITY_TERMS_FILE" doc:"Markdown file with your terms of use, shown at /terms. It is read at the start; raw HTML in it is dropped. Empty: the terms that this release contains. Needs OPPORTUNITY_TERMS_VERSION."`
	TermsVersion    string `env:"OPPORTUNITY_TERMS_VERSION" doc:"Version of your terms of use. A person who accepted another version is asked to accept this one before the next key. Set it to another value whenever your terms change. Empty: the version that this release contains. Gateway and authquota need the same."`
	PrivacyFile     string `env:"OPPORTUNITY_PRIVACY_FILE" doc:"Markdown file with your privacy notice, shown at /privacy. It is read at the start; raw HTML in it is dropped. Empty: a notice that says what this release stores and for how long."`

	AdminListener net.Listener     `env:"-"` // one that is already open takes the place of AdminListen
	Filled        func() error     `env:"-"` // nil once what the first start brings in is there: a condition of the admin /readyz; may be nil
	Now           func() time.Time `env:"-"` // nil: time.Now, and for the counters the clock of Redis
}

// Validate names every setting that cannot be served with.
func (c Config) Validate() error {
	errs := []error{
		c.Redis.Validate(), c.Tokens.Validate(),
		config.Address("OPPORTUNITY_PUBLIC_URL", c.PublicURL), config.Address("OPPORTUNITY_CATALOG_URL", c.CatalogURL),
		config.Address("OPPORTUNITY_HISTORY_URL", c.HistoryURL), config.Address("OPPORTUNITY_AUTHQUOTA_URL", c.AuthquotaURL),
		config.Address("OPPORTUNITY_BILLING_URL", c.BillingURL),
	}
	if _, err := apikey.Peppers(c.Peppers); err != nil {
		errs = append(errs, fmt.Errorf("OPPORTUNITY_KEY_PEPPERS: %w", err))
	}
	if _, err := apikey.ParseOlderForm(c.OlderKeys); err != nil {
		errs = append(errs, fmt.Errorf("OPPORTUNITY_OLDER_KEYS: %w", err))
	}
	if _, err := operator.ParseTokens(c.OperatorTokens); err != nil {
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
	return errors.Join(errs...)
}
