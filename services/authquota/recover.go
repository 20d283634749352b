package authquota

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/service"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/authquota/internal/dbtx"
	"opportunity.internal/services/authquota/internal/journal"
	"opportunity.internal/services/authquota/internal/secretbox"
)

// RecoverConfig loads the settings for Recover.
func RecoverConfig(lookup func(string) (string, bool)) (Config, error) {
	s, err := config.Load[struct {
		Telemetry  telemetry.Config
		Database   database.Config
		Encryption []string `env:"OPPORTUNITY_ENCRYPTION_KEYS,required,notEmpty"`
	}](lookup)
	return Config{Telemetry: s.Telemetry, Database: s.Database, Encryption: s.Encryption}, errors.Join(err, s.Database.Validate())
}

// Recover ends the state of a database that was set back: it accepts the loss, or repeats the changes of a journal that the database lacks. A
// service that runs on the database then becomes ready.
func Recover(ctx context.Context, cfg Config, decision service.Recovery, out io.Writer) error {
	cfg.Database.Access = database.Existing
	accept := decision.Replay == ""
	box, err := secretbox.Parse(cfg.Encryption)
	if err != nil {
		return fmt.Errorf("OPPORTUNITY_ENCRYPTION_KEYS: %w", err)
	}
	err = definition.Do(ctx, cfg, func(r *service.Runtime) error {
		db := &dbtx.DB{DB: r.DB, Now: r.Now, Box: box}
		if accept {
			return db.PassLostChanges(ctx, decision.Operator)
		}
		return replay(ctx, db, decision.Replay, out)
	})
	if err == nil && accept {
		err = definition.Accept(ctx, cfg, decision.Operator, out)
	}
	return err
}

func replay(ctx context.Context, db *dbtx.DB, file string, out io.Writer) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	missing, found, err := lacking(ctx, db, in)
	if err != nil {
		return err
	}
	if found == 0 {
		return fmt.Errorf("%s has no line of a journal of authquota", file)
	}
	report, err := db.Replay(ctx, missing)
	if err != nil {
		return fmt.Errorf("nothing was replayed: %w", err)
	}
	fmt.Fprintf(out, "replayed: changes %d\n", report.Changes)
	for _, g := range report.Missing {
		fmt.Fprintf(out, "missing in the journal: changes %d to %d\n", g.First, g.Last)
	}
	return nil
}

// batch is the number of lines that are compared with the database at a time.
const batch = 1000

// lacking returns the lines of a journal that the database lacks, and the number of all lines.
func lacking(ctx context.Context, db *dbtx.DB, in io.Reader) (missing []journal.Line, found int, err error) {
	var lines []journal.Line
	compare := func() error {
		found += len(lines)
		lacks, err := db.Lacks(ctx, lines)
		missing, lines = append(missing, lacks...), lines[:0]
		return err
	}
	err = journal.Read(in, func(l journal.Line) error {
		if lines = append(lines, l); len(lines) < batch {
			return nil
		}
		return compare()
	})
	if err == nil {
		err = compare()
	}
	if err == nil {
		missing, err = db.Lacks(ctx, missing) // in order, without duplicates of other parts
	}
	return missing, found, err
}
