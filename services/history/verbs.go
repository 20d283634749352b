package history

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"

	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/service"
	"opportunity.internal/pkg/setback"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/history/internal/checkpoint"
	"opportunity.internal/services/history/internal/store"
	"opportunity.internal/services/history/internal/verify"
)

// proofSettings are the settings for the verbs that read the log.
type proofSettings struct {
	Telemetry telemetry.Config
	Database  database.Config
	Proof     checkpoint.Config
}

// ProofConfig loads the settings for Verify and Recover.
func ProofConfig(lookup func(string) (string, bool)) (Config, error) {
	s, err := config.Load[proofSettings](lookup)
	err = errors.Join(err, s.Database.Validate(), s.Proof.Validate())
	return Config{Telemetry: s.Telemetry, Database: s.Database, Proof: s.Proof}, err
}

// ErrMismatch is the error of Verify after it has written a report with findings.
var ErrMismatch = errors.New("the history does not match its log")

// Verify verifies all events against the log in the database and the checkpoints in the files that
// args name, and writes a report to out. It returns ErrMismatch if the report has findings. It
// changes nothing and may run while the history is served.
func Verify(ctx context.Context, cfg Config, args []string, out io.Writer) error {
	var saved []verify.Saved
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
	var report verify.Report
	err = definition.Do(ctx, cfg, func(r *service.Runtime) error {
		s := store.New(r.DB)
		if len(keys.Public("")) == 0 { // without a key every signature would seem invalid
			last, err := s.NewestCheckpoint(ctx, "", math.MaxInt64)
			if err != nil {
				return err
			}
			if last.Size > 0 || len(saved) > 0 {
				return errors.New("no key to verify signatures: set OPPORTUNITY_HISTORY_PUBLIC_KEYS to the public keys of the " +
					"history")
			}
		}
		lost, err := seenElsewhere(ctx, r.DB)
		if err != nil {
			return err
		}
		return s.Snapshot(ctx, func(snapshot *store.Store) error {
			report, err = verify.Run(ctx, snapshot, keys, saved, lost)
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

// seenElsewhere returns what others have seen and the database lacks, unless an operator accepted
// that.
func seenElsewhere(ctx context.Context, db *database.DB) (lost []verify.Finding, err error) {
	claims, err := setback.Store{DB: db}.Claims(ctx)
	for _, text := range claims {
		if m, ok := setback.Parse(text); ok {
			lost = append(lost, verify.Finding{
				Kind: verify.Missing, Sequence: m.Sequence, ID: m.ID,
				Message: "the catalog or a gateway has seen this event, which is missing",
			})
		} else {
			lost = append(lost, verify.Finding{
				Kind: verify.Missing, Message: "a witness has seen a checkpoint of the log that these events do not match",
			})
		}
	}
	return lost, err
}

// ErrNotProved is the error of Prove for an event that cannot be proved; its text says why.
var ErrNotProved = errors.New("not proved")

// Prove writes an event with the proof that the published checkpoint of the log covers it to out
// (C2SP tlog-proof). It changes nothing and may run while the history is served.
func Prove(ctx context.Context, cfg Config, id string, out io.Writer) error {
	cfg.Database.Access = database.ReadOnly
	return definition.Do(ctx, cfg, func(r *service.Runtime) error {
		s := store.New(r.DB)
		log, err := cfg.Proof.Log(s, "")
		if err != nil {
			return err
		}
		log.Now = r.Now
		newest, err := s.NewestCheckpoint(ctx, "", math.MaxInt64)
		if err != nil {
			return err
		}
		c, err := log.Published(ctx, newest.Origin, 0)
		if err != nil {
			return err
		}
		record, found, err := s.Record(ctx, id)
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("%w: there is no event %s", ErrNotProved, id)
		}
		proof, err := log.Prove(ctx, c, record)
		if errors.Is(err, checkpoint.ErrNotCovered) {
			return fmt.Errorf("%w: %w", ErrNotProved, err)
		}
		if err != nil {
			return err
		}
		_, err = out.Write(proof)
		return err
	})
}

func readSaved(name string) (verify.Saved, error) {
	text, err := os.ReadFile(name)
	return verify.Saved{Name: name, Note: string(text)}, err
}

// Recover ends the state of a database that was set back. The catalog then copies all statuses
// again, and the log has another origin.
func Recover(ctx context.Context, cfg Config, decision service.Recovery, out io.Writer) error {
	cfg.Database.Access = database.Existing
	return definition.Do(ctx, cfg, func(r *service.Runtime) error { return r.Recover(ctx, decision, out, nil) })
}
