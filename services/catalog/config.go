package catalog

import (
	"errors"
	"fmt"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/telemetry"
)

// Config is everything that the service can be told.
type Config struct {
	Server    server.Config
	Telemetry telemetry.Config
	Database  database.Config
	Tokens    peer.Tokens

	PublicURL  string `env:"OPPORTUNITY_PUBLIC_URL,required" doc:"Address under which consumers reach the gateway, without a trailing slash."`
	HistoryURL string `env:"OPPORTUNITY_HISTORY_URL,required" doc:"Service port of the history service, without a trailing slash."`

	Now func() time.Time `env:"-"` // nil: time.Now
}

// Validate names every setting that cannot be served with.
func (c Config) Validate() error {
	errs := []error{c.Database.Validate(), c.Tokens.Validate()}
	for _, address := range []struct{ name, value string }{
		{"OPPORTUNITY_PUBLIC_URL", c.PublicURL}, {"OPPORTUNITY_HISTORY_URL", c.HistoryURL},
	} {
		if address.value != "" && (!api.ValidURL(address.value) || address.value[len(address.value)-1] == '/') {
			errs = append(errs, fmt.Errorf("%s must be an http or https URL without a trailing slash", address.name))
		}
	}
	return errors.Join(errs...)
}
