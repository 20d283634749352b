package stripe

import (
	"errors"
	"strings"

	"opportunity.internal/pkg/config"
)

// Config is what the service must know of its account at Stripe.
type Config struct {
	APIKey         string   `env:"OPPORTUNITY_STRIPE_API_KEY" doc:"Secret. Key of Stripe's API, secret or restricted, sk_... or rk_... Required where Stripe is the processor, as are the next two."`
	WebhookSecrets []string `env:"OPPORTUNITY_STRIPE_WEBHOOK_SECRETS" doc:"Secret. Signing secrets of the webhook endpoint, whsec_..., comma-separated: each is believed, so that a new one can be rolled out before the old one is taken away."`
	Price          string   `env:"OPPORTUNITY_STRIPE_PRICE" doc:"Id of the price at which Stripe sells the Business plan, price_... It must be what the plan table says, or the service does not start."`
	APIBase        string   `env:"OPPORTUNITY_STRIPE_API_BASE" doc:"Address of a stand-in for Stripe's API, such as stripe-mock, without a trailing slash. Empty: Stripe itself."`
}

// Given reports whether anything is set.
func (c Config) Given() bool {
	return c.APIKey != "" || len(c.WebhookSecrets) > 0 || c.Price != "" || c.APIBase != ""
}

// Validate names every setting that is missing or cannot be right, without its value.
func (c Config) Validate() error {
	errs := []error{c.ValidateToAsk()}
	if len(c.WebhookSecrets) == 0 {
		errs = append(errs, errors.New("OPPORTUNITY_STRIPE_WEBHOOK_SECRETS must be the signing secrets of the webhook endpoint, which begin with whsec_"))
	}
	for _, s := range c.WebhookSecrets {
		if !strings.HasPrefix(s, "whsec_") || len(s) < len("whsec_")+16 {
			errs = append(errs, errors.New("OPPORTUNITY_STRIPE_WEBHOOK_SECRETS: each must be a signing secret of Stripe, which begins with whsec_"))
			break
		}
	}
	return errors.Join(errs...)
}

// ValidateToAsk is Validate for a process that takes no announcements.
func (c Config) ValidateToAsk() error {
	var errs []error
	if !strings.HasPrefix(c.APIKey, "sk_") && !strings.HasPrefix(c.APIKey, "rk_") {
		errs = append(errs, errors.New("OPPORTUNITY_STRIPE_API_KEY must be a secret or restricted key of Stripe, which begins with sk_ or rk_"))
	}
	if !strings.HasPrefix(c.Price, "price_") {
		errs = append(errs, errors.New("OPPORTUNITY_STRIPE_PRICE must be the id of a price, which begins with price_"))
	}
	return errors.Join(append(errs, config.Address("OPPORTUNITY_STRIPE_API_BASE", c.APIBase))...)
}
