package authquota

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/authquota/internal/dbtx"
	"opportunity.internal/services/authquota/internal/epoch"
	"opportunity.internal/services/authquota/internal/journal"
	"opportunity.internal/services/authquota/internal/secretbox"
)

// witness compares the database with the newest change that is known outside it: in the gateways' Redis, and in this process's journal.
type witness struct {
	redis *redis.Client
	db    *dbtx.DB
	guard *service.Guard
	log   *slog.Logger
	last  func() journal.Line // the newest line of the journal; nil if the journal cannot be read

	behind atomic.Bool // Redis may lack the newest change
}

func newWitness(cfg Config, r *service.Runtime, client *redis.Client, db *dbtx.DB) (*witness, error) {
	w := &witness{redis: client, db: db, log: r.Log}
	if cfg.JournalFile == "" {
		db.Journal = journal.NewStream(cmp.Or[io.Writer](cfg.JournalOutput, os.Stdout))
	} else {
		file, err := journal.OpenFile(cfg.JournalFile)
		if err != nil {
			return nil, fmt.Errorf("OPPORTUNITY_JOURNAL_FILE: %w", err)
		}
		db.Journal, w.last = file, file.Last
	}
	db.Committed = w.committed
	w.guard = r.Guard("authquota", db.HasChange, w.seen)
	return w, nil
}

// unlessSetBack returns do for a loop that does nothing while the database is set back.
func (w *witness) unlessSetBack(do func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if w.guard.Err() != nil {
			return nil
		}
		return do(ctx)
	}
}

//go:embed newest.lua
var newestSource string

var newest = redis.NewScript(newestSource)

// report stores a change as the newest in Redis, unless Redis has a newer one. It returns the newest.
func (w *witness) report(ctx context.Context, change api.FeedMark) (api.FeedMark, error) {
	text, err := newest.Run(ctx, w.redis, []string{counter.NewestChange}, change.Sequence, change.ID, int(counter.NewestChangeTTL.Seconds())).Text()
	return parseMark(text, err)
}

func parseMark(text string, err error) (api.FeedMark, error) {
	if errors.Is(err, redis.Nil) || err == nil && text == "" {
		return api.FeedMark{}, nil
	}
	if err != nil {
		return api.FeedMark{}, problem.Unavailable(err)
	}
	return api.ParseFeedMark(text)
}

// seen returns the newest change that is known outside the database, or one that the database lacks.
func (w *witness) seen(ctx context.Context) (api.Seen, error) {
	if written := w.written(); written.Sequence > 0 {
		has, err := w.db.HasChange(ctx, database.SetBack{Number: written.Sequence, ID: written.ID})
		if err != nil || !has {
			return api.Seen{Mark: written}, err
		}
	}
	mark, err := w.reportNewest(ctx)
	return api.Seen{Mark: mark}, err
}

// written returns the newest change in the journal, or the zero mark if the journal cannot be read.
func (w *witness) written() api.FeedMark {
	if w.last == nil {
		return api.FeedMark{}
	}
	l := w.last()
	return api.FeedMark{Sequence: l.Sequence, ID: l.ID}
}

// reportNewest reports the newest change of the database, and returns the newest in Redis.
func (w *witness) reportNewest(ctx context.Context) (api.FeedMark, error) {
	own, err := w.db.NewestChange(ctx)
	if err != nil {
		return own, err
	}
	known, err := w.report(ctx, own)
	if err == nil {
		w.behind.Store(false)
	}
	return known, err
}

// committed reports a change to Redis.
func (w *witness) committed(ctx context.Context, change api.FeedMark) {
	known, err := w.report(ctx, change)
	if err == nil && known != change {
		_, err = w.guard.Verify(ctx, known)
	}
	if err != nil && !errors.Is(err, service.ErrSetBack) {
		w.behind.Store(true)
		w.log.WarnContext(ctx, "newest change not reported to Redis", "sequence", change.Sequence, "error", err.Error())
	}
}

// verify returns an error (503) if the database lacks the newest change in Redis or in the journal, or if Redis or the database is
// unavailable.
func (w *witness) verify(ctx context.Context) error {
	if _, err := w.guard.Verify(ctx, w.written()); err != nil {
		return err
	}
	known, err := parseMark(w.redis.Get(ctx, counter.NewestChange).Result())
	if err == nil && known != w.written() {
		_, err = w.guard.Verify(ctx, known)
	}
	return err
}

// effects are the epochs, with the report to Redis: a change of what an account may do is acknowledged after both.
type effects struct {
	*epoch.Epochs

	witness *witness
}

// Deliver makes committed changes of an account take effect, on gateways and for a restored database.
func (e effects) Deliver(ctx context.Context, account string) (left int, err error) {
	if left, err = e.Epochs.Deliver(ctx, account); err == nil && e.witness.behind.Load() {
		_, err = e.witness.reportNewest(ctx)
	}
	return left, err
}

// handler returns a handler that rejects requests while the database is set back. It verifies the database on each of them, so that no page
// is served from a restored one.
func (w *witness) handler(next http.Handler, problems problem.Writer) http.Handler {
	guarded := w.guard.Handler(next, problems, "/readyz")
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_ = w.verify(r.Context()) // during an outage of Redis, pages are served; no key is resolved
		guarded.ServeHTTP(rw, r)
	})
}

// RecoverConfig loads the settings for Recover.
func RecoverConfig(lookup func(string) (string, bool)) (Config, error) {
	s, err := config.Load[struct {
		Telemetry  telemetry.Config
		Database   database.Config
		Encryption []string `env:"OPPORTUNITY_ENCRYPTION_KEYS,required,notEmpty"`
	}](lookup)
	return Config{Telemetry: s.Telemetry, Database: s.Database, Encryption: s.Encryption}, errors.Join(err, s.Database.Validate())
}

// Recover ends the state of a database that was set back: with --accept it accepts the loss, with --replay it repeats the changes of a
// journal that the database lacks. A service that runs on the database then becomes ready.
func Recover(ctx context.Context, cfg Config, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("recover", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // its errors are returned
	accept, file, operator := flags.Bool("accept", false, ""), flags.String("replay", "", ""), flags.String("operator", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || *accept == (*file != "") || *accept && *operator == "" {
		return errors.New("usage: authquota recover --accept --operator NAME | --replay FILE")
	}
	cfg.Database.Access = database.Existing
	box, err := secretbox.Parse(cfg.Encryption)
	if err != nil {
		return fmt.Errorf("OPPORTUNITY_ENCRYPTION_KEYS: %w", err)
	}
	err = definition.Do(ctx, cfg, func(r *service.Runtime) error {
		db := &dbtx.DB{DB: r.DB, Now: r.Now, Box: box}
		if *accept {
			return db.PassLostChanges(ctx, *operator)
		}
		return replay(ctx, db, *file, out)
	})
	if err == nil && *accept {
		err = definition.Accept(ctx, cfg, *operator, out)
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
