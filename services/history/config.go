package history

import (
	"errors"
	"fmt"
	"time"

	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/history/internal/checkpoint"
	"opportunity.internal/services/history/internal/linkcheck"
)

// Config is everything that the service can be told.
type Config struct {
	Server    server.Config
	Telemetry telemetry.Config
	Database  database.Config
	Tokens    peer.Tokens
	Links     linkcheck.Config

	PublicURL  string `env:"OPPORTUNITY_PUBLIC_URL,required,notEmpty" doc:"Address under which consumers reach the gateway, without a trailing slash."`
	CatalogURL string `env:"OPPORTUNITY_CATALOG_URL,required,notEmpty" doc:"Service port of the catalog, without a trailing slash."`

	SigningKeys []string `env:"OPPORTUNITY_HISTORY_SIGNING_KEY" doc:"Secret. Seeds of the Ed25519 keys that sign checkpoints of the history, 32 bytes in hexadecimal each, newest first: the first signs, all are believed. Empty: no checkpoints are made."`
	RetiredKeys []string `env:"OPPORTUNITY_HISTORY_RETIRED_KEYS" doc:"Public keys of signing keys that were taken out, as checkpoints publish them, so that older checkpoints are still believed."`

	Now func() time.Time `env:"-"` // nil: time.Now
}

// Validate names every setting that cannot be served with.
func (c Config) Validate() error {
	_, err := checkpoint.ParseKeys(c.SigningKeys, c.RetiredKeys)
	if err != nil {
		err = fmt.Errorf("OPPORTUNITY_HISTORY_SIGNING_KEY, OPPORTUNITY_HISTORY_RETIRED_KEYS: %w", err)
	}
	return errors.Join(c.Database.Validate(), c.Tokens.Validate(), c.Links.Validate(), err,
		config.Address("OPPORTUNITY_PUBLIC_URL", c.PublicURL), config.Address("OPPORTUNITY_CATALOG_URL", c.CatalogURL))
}
