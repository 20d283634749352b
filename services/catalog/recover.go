package catalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/highwater"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/service"
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

// Recover accepts that the database was set back. A service that runs on it then becomes ready. Public records that the history knows as
// withdrawn stay withdrawn until an operator publishes them: Recover names them.
func Recover(ctx context.Context, cfg Config, decision service.Recovery, out io.Writer) error {
	cfg.Database.Access = database.Existing
	return definition.Do(ctx, cfg, func(r *service.Runtime) error {
		if err := r.NotSetBack(ctx); !errors.Is(err, highwater.ErrSetBack) {
			return errors.Join(err, definition.Accept(ctx, cfg, decision.Operator, out)) // says that it is not
		}
		listings := store.New(r.DB, r.Now)
		ids, err := withhold(ctx, listings, decision.Operator)
		if err != nil {
			return err
		}
		for _, id := range ids {
			fmt.Fprintf(out, "kept withdrawn: %s was withdrawn after the backup; \"listings publish %s\" publishes it again\n", id, id)
		}
		if err := definition.Accept(ctx, cfg, decision.Operator, out); err != nil {
			return err
		}
		return listings.EndWithheld(ctx)
	})
}

// withhold is like listings.Withhold. It gives a service that just found the database set back the time to ask the history.
func withhold(ctx context.Context, listings *store.Store, actor string) (ids []string, err error) {
	for range 15 {
		if ids, err = listings.Withhold(ctx, actor); !errors.Is(err, store.ErrNotAsked) {
			break
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return ids, err
}

// saveWithheld asks the history which listings are not public, for Recover.
func saveWithheld(ctx context.Context, history *peer.Client, listings *store.Store) error {
	var known api.UnpublishedListings
	if err := history.Get(ctx, "/internal/v1/unpublished-listings", &known); err != nil {
		return err
	}
	return listings.SaveWithheld(ctx, known.Listings)
}
