package stripe

import (
	"errors"
	"strings"

	"opportunity.internal/pkg/config"
)

// Config holds the settings for Stripe.
type Config struct {
	APIKey         string   `env:"OPPORTUNITY_STRIPE_API_KEY" doc:"Secret. Stripe API key, secret (sk_...) or restricted (rk_...). Required with Stripe, like the next two settings."`
	WebhookSecrets []string `env:"OPPORTUNITY_STRIPE_WEBHOOK_SECRETS" doc:"Secret. Signing secrets of the webhook endpoint, whsec_..., comma-separated. All are accepted, so that a new secret can be rolled out before the old one is removed."`
	Price          string   `env:"OPPORTUNITY_STRIPE_PRICE" doc:"Id of the Stripe price of the Business plan, price_... The service does not start unless it matches the plan table."`
	APIBase        string   `env:"OPPORTUNITY_STRIPE_API_BASE" doc:"Address of a substitute for Stripe's API, such as stripe-mock, without a trailing slash. Empty: Stripe."`
}

// IsSet reports whether any Stripe setting is set.
func (c Config) IsSet() bool {
	return c.APIKey != "" || len(c.WebhookSecrets) > 0 || c.Price != "" || c.APIBase != ""
}

// Validate returns an error that names every missing or invalid setting, without values.
func (c Config) Validate() error {
	errs := []error{c.ValidateAPI()}
	if len(c.WebhookSecrets) == 0 {
		errs = append(errs, errors.New("missing OPPORTUNITY_STRIPE_WEBHOOK_SECRETS: set it to the webhook endpoint's "+
			"signing secrets (whsec_...)"))
	}
	for _, s := range c.WebhookSecrets {
		if !strings.HasPrefix(s, "whsec_") || len(s) < len("whsec_")+16 {
			errs = append(errs, errors.New("invalid OPPORTUNITY_STRIPE_WEBHOOK_SECRETS: each value must be a Stripe signing "+
				"secret (whsec_...)"))
			break
		}
	}
	return errors.Join(errs...)
}

// ValidateAPI is Validate for a process that calls Stripe but receives no webhook events.
func (c Config) ValidateAPI() error {
	var errs []error
	if !strings.HasPrefix(c.APIKey, "sk_") && !strings.HasPrefix(c.APIKey, "rk_") {
		errs = append(errs, errors.New("missing or invalid OPPORTUNITY_STRIPE_API_KEY: use a secret or restricted key "+
			"(sk_... or rk_...)"))
	}
	if !strings.HasPrefix(c.Price, "price_") {
		errs = append(errs, errors.New("missing or invalid OPPORTUNITY_STRIPE_PRICE: use the id of a price (price_...)"))
	}
	return errors.Join(append(errs, config.Address("OPPORTUNITY_STRIPE_API_BASE", c.APIBase))...)
}
