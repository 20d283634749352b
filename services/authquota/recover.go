package authquota

import (
	"context"
	"errors"
	"fmt"
	"io"

	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/redisdb"
	"opportunity.internal/pkg/service"
	"opportunity.internal/pkg/setback"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/authquota/internal/epochs"
)

// RecoverConfig loads the settings for Recover.
func RecoverConfig(lookup func(string) (string, bool)) (Config, error) {
	s, err := config.Load[struct {
		Telemetry telemetry.Config
		Database  database.Config
		Redis     redisdb.Config
	}](lookup)
	return Config{Telemetry: s.Telemetry, Database: s.Database, Redis: s.Redis}, errors.Join(err, s.Database.Validate(), s.Redis.Validate())
}

// Recover ends the state of a database that was set back. Accepting the loss revokes what belongs
// to the accounts that may have lost a change. A service that runs on the database then becomes
// ready.
func Recover(ctx context.Context, cfg Config, decision service.Recovery, out io.Writer) error {
	cfg.Database.Access = database.Existing
	return definition.Do(ctx, cfg, func(r *service.Runtime) error {
		client, err := r.Redis(cfg.Redis)
		if err != nil {
			return err
		}
		lost, err := epochs.ReadLost(ctx, client, setback.Store{DB: r.DB, Changes: "changes"})
		if err != nil {
			return fmt.Errorf("reading from Redis which changes were lost: %w", err)
		}
		if decision.Current {
			return r.Recover(ctx, decision, out, epochs.Current(r.Now(), decision.Operator), lost.Marks...)
		}
		if err = r.Recover(ctx, decision, out, lost.Accept(r.Now(), decision.Operator), lost.Marks...); err == nil {
			_, err = fmt.Fprintf(out, "%d accounts may have lost changes: their keys are revoked, and their people sign in by resetting the password\n", lost.Accounts)
		}
		return err
	})
}
