package catalog

import (
	"context"
	"errors"
	"io"

	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/service"
	"opportunity.internal/pkg/telemetry"
)

// RecoverConfig loads the settings for Recover.
func RecoverConfig(lookup func(string) (string, bool)) (Config, error) {
	s, err := config.Load[struct {
		Telemetry telemetry.Config
		Database  database.Config
	}](lookup)
	return Config{Telemetry: s.Telemetry, Database: s.Database}, errors.Join(err, s.Database.Validate())
}

// Recover accepts that the database was set back. A service that runs on it then becomes ready.
func Recover(ctx context.Context, cfg Config, decision service.Recovery, out io.Writer) error {
	cfg.Database.Access = database.Existing
	return definition.Accept(ctx, cfg, decision.Operator, out)
}
