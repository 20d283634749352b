package history

import (
	"errors"
	"time"

	"opportunity.internal/pkg/certificate"
	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/history/internal/checkpoint"
	"opportunity.internal/services/history/internal/linkcheck"
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
	Links     linkcheck.Config
	Proof     checkpoint.Config

	PublicURL  string `env:"OPPORTUNITY_PUBLIC_URL,required,notEmpty" doc:"Address under which consumers reach the gateway, without a trailing slash."`
	CatalogURL string `env:"OPPORTUNITY_CATALOG_URL,required,notEmpty" doc:"Service port of the catalog, without a trailing slash."`

	RequireQuotes bool `env:"OPPORTUNITY_HISTORY_REQUIRE_QUOTES" envDefault:"false" doc:"Reject a verified review from the desk or \"reviews record\" unless each known fact has a quote. Events files need none, because they may be older."`

	Now     func() time.Time `env:"-"` // nil: time.Now
	ReadNow func()           `env:"-"` // starts a run of the link checker in this process; nil if there is none
}

// Validate returns an error that names every invalid setting.
func (c Config) Validate() error {
	return errors.Join(c.Database.Validate(), c.Tokens.Validate(peer.Catalog), c.Callers.Validate(peer.History),
		c.TLS.Validate(), c.Peers.Validate(map[string]string{"OPPORTUNITY_CATALOG_URL": c.CatalogURL}),
		c.Links.Validate(), c.Proof.Validate(),
		config.Address("OPPORTUNITY_PUBLIC_URL", c.PublicURL), config.Address("OPPORTUNITY_CATALOG_URL", c.CatalogURL))
}
