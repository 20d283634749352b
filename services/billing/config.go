package billing

import (
	"errors"
	"time"

	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/billing/internal/stripe"
)

// The payment processors.
const (
	Stripe  = "stripe"
	Sandbox = "sandbox"
)

// Config is everything that the service can be told.
type Config struct {
	Server    server.Config
	Telemetry telemetry.Config
	Database  database.Config
	Tokens    peer.Tokens
	Stripe    stripe.Config

	Processor    string `env:"OPPORTUNITY_BILLING_PROCESSOR" envDefault:"stripe" doc:"Who moves the money: stripe; or sandbox, where none moves and anybody can pretend to pay, for one machine and for development ('opportunity up' sets it)."`
	PublicURL    string `env:"OPPORTUNITY_PUBLIC_URL,required,notEmpty" doc:"Address under which consumers reach the gateway, without a trailing slash."`
	AuthquotaURL string `env:"OPPORTUNITY_AUTHQUOTA_URL,required,notEmpty" doc:"Service port of authquota, without a trailing slash."`

	Now func() time.Time `env:"-"` // nil: time.Now
}

// Validate names every setting that cannot be served with.
func (c Config) Validate() error {
	return errors.Join(c.Database.Validate(), c.Tokens.Validate(), c.processor(c.Stripe.Validate),
		config.Address("OPPORTUNITY_PUBLIC_URL", c.PublicURL), config.Address("OPPORTUNITY_AUTHQUOTA_URL", c.AuthquotaURL))
}

func (c Config) processor(validateStripe func() error) error {
	switch c.Processor {
	case Stripe:
		return validateStripe()
	case Sandbox:
		if c.Stripe.Given() {
			return errors.New("OPPORTUNITY_BILLING_PROCESSOR is sandbox, but OPPORTUNITY_STRIPE_* settings are given: remove them, or set it to stripe")
		}
		return nil
	}
	return errors.New("OPPORTUNITY_BILLING_PROCESSOR must be stripe or sandbox")
}
