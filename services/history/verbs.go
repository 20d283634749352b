package history

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"time"

	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/history/internal/audit"
	"opportunity.internal/services/history/internal/checkpoint"
	"opportunity.internal/services/history/internal/notary"
	"opportunity.internal/services/history/internal/store"
	"opportunity.internal/services/history/migrations"
)

// proofSettings are what checkpoint and verify need of the service's settings.
type proofSettings struct {
	Telemetry telemetry.Config
	Database  database.Config
	Proof     checkpoint.Config
}

// ProofConfig reads the settings that Verify and SignNow need.
func ProofConfig(lookup func(string) (string, bool)) (Config, error) {
	s, err := config.Load[proofSettings](lookup)
	err = errors.Join(err, s.Database.Validate(), s.Proof.Validate())
	return Config{Telemetry: s.Telemetry, Database: s.Database, Proof: s.Proof}, err
}

// opened calls work with the store of cfg, whose schema must be there.
func opened(ctx context.Context, cfg Config, work func(*store.Store, *telemetry.Telemetry) error) error {
	tel, err := telemetry.Start(ctx, "history", cfg.Telemetry)
	if err != nil {
		return err
	}
	defer tel.Shutdown(context.WithoutCancel(ctx)) //nolint:errcheck // spans that cannot be sent are lost
	db, err := database.Open(cfg.Database, tel)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.Current(ctx, migrations.Files); err != nil {
		return err
	}
	return work(store.New(db, tel.Registry), tel)
}

// SignNow makes a checkpoint, whether the day has one or not, and writes its signed text to out.
func SignNow(ctx context.Context, cfg Config, out io.Writer) error {
	keys, err := cfg.Proof.Keys()
	if err != nil {
		return err
	}
	if !keys.Signs() {
		return errors.New("OPPORTUNITY_HISTORY_SIGNING_KEY is not set")
	}
	now := cfg.Now
	if now == nil {
		now = time.Now
	}
	cfg.Database.Access = database.Existing
	return opened(ctx, cfg, func(s *store.Store, tel *telemetry.Telemetry) error {
		c, made, err := notary.Notary{Store: s, Keys: keys, Now: now, Log: tel.Log}.Make(ctx, "")
		if err != nil {
			return err
		}
		if !made {
			return errors.New("there is nothing to sign: no event was ever recorded")
		}
		_, err = io.WriteString(out, c.Note)
		return err
	})
}

// ErrDoesNotFit is the error of Verify where something does not fit; what, it has written.
var ErrDoesNotFit = errors.New("the history does not fit what was signed")

// Verify proves all events against everything that was signed of them, in the database and in files that args name, and writes
// the outcome to out. It changes nothing, and works while the history is being served.
func Verify(ctx context.Context, cfg Config, args []string, out io.Writer) error {
	var saved []audit.Saved
	flags := flag.NewFlagSet("verify", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // its errors are returned
	form := flags.String("output", "text", "")
	flags.Func("against", "", func(name string) error {
		s, err := readSaved(name)
		saved = append(saved, s)
		return err
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || *form != "text" && *form != "json" {
		return errors.New("usage: history verify [--against FILE]... [--output text|json]")
	}
	keys, err := cfg.Proof.Keys()
	if err != nil {
		return err
	}
	progress := cfg.Progress
	if progress == nil || *form == "json" {
		progress = func(int64, int64) {}
	}
	cfg.Database.Access = database.ReadOnly
	var report audit.Report
	err = opened(ctx, cfg, func(s *store.Store, _ *telemetry.Telemetry) error {
		if len(keys.Public()) == 0 { // without a key every signature would pass for a forged one
			last, _, err := s.LastCheckpoint(ctx)
			if err != nil {
				return err
			}
			if last.Number > 0 || len(saved) > 0 {
				return errors.New("the history is signed, and no key is known: set OPPORTUNITY_HISTORY_PUBLIC_KEYS to its public keys")
			}
		}
		return s.Audit(ctx, func(source audit.Source) error {
			report, err = audit.Run(&watched{Source: source, progress: progress}, keys, saved)
			return err
		})
	})
	progress(report.Events, report.Events)
	if err != nil {
		return err
	}
	if *form == "json" {
		err = json.NewEncoder(out).Encode(report)
	} else {
		err = report.Print(out)
	}
	if err == nil && !report.Fits {
		err = ErrDoesNotFit
	}
	return err
}

// watched reports how many of all events were read.
type watched struct {
	audit.Source

	done, total int64
	progress    func(done, total int64)
}

func (w *watched) Totals() (int64, []checkpoint.Stored, error) {
	appended, kept, err := w.Source.Totals()
	w.total = appended
	return appended, kept, err
}

func (w *watched) Events(after int64, limit int) (audit.Page, error) {
	page, err := w.Source.Events(after, limit)
	w.done += int64(len(page.Records))
	w.progress(w.done, w.total)
	return page, err
}

// readSaved reads a checkpoint that somebody kept: the published document, or the signed text alone.
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
