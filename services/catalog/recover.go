package catalog

import (
	"context"
	"errors"
	"flag"
	"io"

	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/database"
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
func Recover(ctx context.Context, cfg Config, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("recover", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // its errors are returned
	accept, operator := flags.Bool("accept", false, ""), flags.String("operator", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || !*accept || *operator == "" {
		return errors.New("usage: catalog recover --accept --operator NAME")
	}
	cfg.Database.Access = database.Existing
	return definition.Accept(ctx, cfg, *operator, out)
}
