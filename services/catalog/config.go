package catalog

import (
	"errors"
	"time"

	"opportunity.internal/pkg/certificate"
	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/telemetry"
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

	PublicURL  string `env:"OPPORTUNITY_PUBLIC_URL,required,notEmpty" doc:"Address under which consumers reach the gateway, without a trailing slash."`
	HistoryURL string `env:"OPPORTUNITY_HISTORY_URL,required,notEmpty" doc:"Service port of the history service, without a trailing slash."`

	Now func() time.Time `env:"-"` // nil: time.Now
}

// Validate returns an error that names every missing or invalid setting.
func (c Config) Validate() error {
	return errors.Join(c.Database.Validate(), c.Tokens.Validate(peer.History), c.Callers.Validate(peer.Catalog),
		c.TLS.Validate(), c.Peers.Validate(map[string]string{"OPPORTUNITY_HISTORY_URL": c.HistoryURL}),
		config.Address("OPPORTUNITY_PUBLIC_URL", c.PublicURL), config.Address("OPPORTUNITY_HISTORY_URL", c.HistoryURL))
}
