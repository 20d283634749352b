package catalog

import (
	"context"
	"errors"
	"io"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/service"
	"opportunity.internal/pkg/setback"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/catalog/internal/store"
)

// RecoverConfig loads the settings for Recover.
func RecoverConfig(lookup func(string) (string, bool)) (Config, error) {
	s, err := config.Load[struct {
		Telemetry telemetry.Config
		Database  database.Config
	}](lookup)
	return Config{Telemetry: s.Telemetry, Database: s.Database}, errors.Join(err, s.Database.Validate())
}

// Recover ends the state of a database that was set back. After an accepted loss, a service that
// runs on it first queries history for the records that were withdrawn since the backup: they stay
// withdrawn until an operator publishes them.
func Recover(ctx context.Context, cfg Config, decision service.Recovery, out io.Writer) error {
	cfg.Database.Access = database.Existing
	return definition.Do(ctx, cfg, func(r *service.Runtime) error {
		if decision.Current {
			return r.Recover(ctx, decision, out, nil)
		}
		return r.Recover(ctx, decision, out, store.WithholdLater)
	})
}

// withhold withdraws what history knows as withdrawn, after an accepted loss.
func withhold(ctx context.Context, r *service.Runtime, guard *setback.Guard, history *peer.Client,
	listings *store.Store) error {
	if err := guard.Poll(ctx); guard.Err() == nil {
		return err
	}
	if must, err := listings.MustWithhold(ctx); err != nil || !must {
		return err
	}
	var known api.UnpublishedListings
	if err := history.Get(ctx, "/internal/v1/unpublished-listings", &known); err != nil {
		return err
	}
	ids, err := listings.Withhold(ctx, known.Listings)
	if err == nil && len(ids) == 0 {
		return errors.Join(listings.EndWithhold(ctx), guard.Poll(ctx))
	}
	if len(ids) > 0 { // until the next call, the snapshot follows
		r.Log.WarnContext(ctx, "records kept withdrawn: they were withdrawn after the backup; "+
			"the operator command listings publish publishes them", "listing_ids", ids)
	}
	return err
}
