package history

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/highwater"
	"opportunity.internal/pkg/service"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/history/internal/audit"
	"opportunity.internal/services/history/internal/checkpoint"
	"opportunity.internal/services/history/internal/notary"
	"opportunity.internal/services/history/internal/store"
)

// proofSettings are the settings for the verbs checkpoint and verify.
type proofSettings struct {
	Telemetry telemetry.Config
	Database  database.Config
	Proof     checkpoint.Config
}

// ProofConfig loads the settings for Verify, Export and Recover.
func ProofConfig(lookup func(string) (string, bool)) (Config, error) {
	s, err := config.Load[proofSettings](lookup)
	err = errors.Join(err, s.Database.Validate(), s.Proof.Validate())
	return Config{Telemetry: s.Telemetry, Database: s.Database, Proof: s.Proof}, err
}

// SignNow makes a checkpoint, even if the day already has one, and writes its signed text to out. The catalog must be reachable, because it
// keeps the newest one.
func SignNow(ctx context.Context, cfg Config, out io.Writer) error {
	keys, err := cfg.Proof.Keys()
	if err != nil {
		return err
	}
	if !keys.Signs() {
		return errors.New("OPPORTUNITY_HISTORY_SIGNING_KEY is not set")
	}
	cfg.Database.Access = database.Existing
	return definition.Do(ctx, cfg, func(r *service.Runtime) error {
		events := store.New(r.DB)
		guard, catalog, err := newGuard(r, cfg, keys, events)
		if err != nil {
			return err
		}
		exchange := func(ctx context.Context) error { return guard.Exchange(ctx, catalog) }
		signer := notary.Notary{Store: events, Keys: keys, Now: r.Now, Log: r.Log, Exchange: exchange}
		c, made, err := signer.Make(ctx, "")
		if err != nil {
			return err
		}
		if !made {
			return errors.New("no events recorded: nothing to sign")
		}
		_, err = io.WriteString(out, c.Note)
		return err
	})
}

// ErrMismatch is the error of Verify after it has written a report with findings.
var ErrMismatch = errors.New("the history does not match its checkpoints")

// Verify verifies all events against the signed checkpoints in the database and in the files that args name, and writes a report to
// out. It returns ErrMismatch if the report has findings. It changes nothing and may run while the history is served.
func Verify(ctx context.Context, cfg Config, args []string, out io.Writer) error {
	var saved []audit.Saved
	flags := flag.NewFlagSet("verify", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // its errors are returned
	format := flags.String("output", "text", "")
	flags.Func("against", "", func(name string) error {
		s, err := readSaved(name)
		saved = append(saved, s)
		return err
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || *format != "text" && *format != "json" {
		return errors.New("usage: history verify [--against FILE]... [--output text|json]")
	}
	keys, err := cfg.Proof.Keys()
	if err != nil {
		return err
	}
	cfg.Database.Access = database.ReadOnly
	var report audit.Report
	err = definition.Do(ctx, cfg, func(r *service.Runtime) error {
		s := store.New(r.DB)
		if len(keys.Public()) == 0 { // without a key every signature would seem invalid
			last, _, err := s.LastCheckpoint(ctx)
			if err != nil {
				return err
			}
			if last.Number > 0 || len(saved) > 0 {
				return errors.New("no key to verify signatures: set OPPORTUNITY_HISTORY_PUBLIC_KEYS to the public keys of the history")
			}
		}
		seen, lost, err := seenByCatalog(ctx, r.DB, s)
		if err != nil {
			return err
		}
		return s.Audit(ctx, func(source audit.Source) error {
			report, err = audit.Run(source, keys, append(saved, seen...), lost)
			return err
		})
	})
	if err != nil {
		return err
	}
	if *format == "json" {
		err = json.NewEncoder(out).Encode(report)
	} else {
		err = report.Print(out)
	}
	if err == nil && !report.Fits {
		err = ErrMismatch
	}
	return err
}

// seenByCatalog returns what the catalog has seen and the database lacks, unless an operator accepted that.
func seenByCatalog(ctx context.Context, db *database.DB, events *store.Store) (checkpoints []audit.Saved, lost []api.Change, err error) {
	all, err := highwater.Losses(db.WithContext(ctx))
	if err != nil {
		return nil, nil, err
	}
	for _, s := range all {
		if !s.Open() {
			continue
		}
		switch has, err := events.Has(ctx, s); {
		case err != nil:
			return nil, nil, err
		case has: // replayed since
		case s.Kind == highwater.Checkpoint:
			checkpoints = append(checkpoints, audit.Saved{Name: "the catalog", Note: s.Note})
		default:
			lost = append(lost, api.Change{Sequence: s.Number, ID: s.ID})
		}
	}
	return checkpoints, lost, nil
}

// readSaved reads a saved checkpoint from a file: the published document or only the signed text.
func readSaved(name string) (audit.Saved, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return audit.Saved{}, err
	}
	var published checkpoint.Document
	if json.Unmarshal(text, &published) == nil {
		return audit.Saved{Name: name, Note: published.Checkpoint}, nil
	}
	return audit.Saved{Name: name, Note: string(text)}, nil
}
