package billing

import (
	"errors"
	"fmt"
	"time"

	"opportunity.internal/pkg/certificate"
	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/billing/internal/stripe"
	"opportunity.internal/services/billing/internal/subscription"
)

// Payment processors, as values of Config.Processor.
const (
	Stripe  = "stripe"
	Sandbox = "sandbox"
)

// Config holds the settings of the service.
type Config struct {
	Server    server.Config
	Telemetry telemetry.Config
	Database  database.Config
	Tokens    peer.Tokens
	Callers   peer.Callers
	TLS       certificate.ServerConfig
	Peers     certificate.PeerConfig
	Stripe    stripe.Config

	Processor    string `env:"OPPORTUNITY_BILLING_PROCESSOR" envDefault:"stripe" doc:"Payment processor: stripe, or sandbox for development on one machine, where no money moves and anyone can pretend to pay ('opportunity up' sets it)."`
	PublicURL    string `env:"OPPORTUNITY_PUBLIC_URL,required,notEmpty" doc:"Address under which consumers reach the gateway, without a trailing slash."`
	AuthquotaURL string `env:"OPPORTUNITY_AUTHQUOTA_URL,required,notEmpty" doc:"Service port of authquota, without a trailing slash."`

	Now        func() time.Time       `env:"-"` // nil: time.Now
	Substitute subscription.Processor `env:"-"` // for Stripe, in tests; nil: none
}

// Validate returns an error that names every missing or invalid setting.
func (c Config) Validate() error {
	return errors.Join(c.Database.Validate(), c.Tokens.Validate(peer.Authquota), c.Callers.Validate(peer.Billing),
		c.TLS.Validate(), c.Peers.Validate(map[string]string{"OPPORTUNITY_AUTHQUOTA_URL": c.AuthquotaURL}),
		c.validateProcessor(c.Stripe.Validate),
		config.Address("OPPORTUNITY_PUBLIC_URL", c.PublicURL), config.Address("OPPORTUNITY_AUTHQUOTA_URL", c.AuthquotaURL))
}

func (c Config) validateProcessor(validateStripe func() error) error {
	switch c.Processor {
	case Stripe:
		return validateStripe()
	case Sandbox:
		if c.Stripe.IsSet() {
			return errors.New("OPPORTUNITY_STRIPE_* settings are set but OPPORTUNITY_BILLING_PROCESSOR is sandbox: remove " +
				"them or set it to stripe")
		}
		return nil
	}
	return fmt.Errorf("invalid OPPORTUNITY_BILLING_PROCESSOR %q: use stripe or sandbox", c.Processor)
}
