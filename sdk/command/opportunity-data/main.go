// Command opportunity-data writes the records that an API key can read to a file, keeps the file up
// to date, and verifies events of their history.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	_ "github.com/glebarez/go-sqlite" // the driver "sqlite"

	"opportunity.internal/sdk/go/opportunity"
)

const usage = `Usage: opportunity-data export [--every DURATION] FILE
       opportunity-data verify [--key KEY] [--witness KEY] [--checkpoint FILE] ID|FILE

export

Writes the records that your key can read to FILE. Run it again to update FILE. The name decides the format:

  .db, .sqlite      an SQLite database, whose view opportunities has a column for each value
  .csv              a row for each record
  .ndjson, .jsonl   a JSON object on each line

The address of the service comes from OPPORTUNITY_URL, the key from OPPORTUNITY_KEY.

  --every DURATION  update FILE at this interval, such as 15m, until interrupted

verify

Says what is proved about an event, and exits with 0; or says why it is not proved, and exits with 1. ID is the id of an
event, or of a record: then it is its newest event. The proof, the checkpoint and the keys come from
OPPORTUNITY_URL, and need no OPPORTUNITY_KEY for events of the free set. FILE, whose name has a dot
or a slash, is a saved proof, "-" standard input: these need --key and no network.

  --key KEY          a public key of the log that you have kept; may be repeated
  --witness KEY      the key of a witness that must have cosigned; may be repeated
  --checkpoint FILE  a checkpoint from elsewhere, to which the proof must lead
`

// errUsage is the error of a wrong command line.
var errUsage = errors.New("wrong command line")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if errors.Is(err, errUsage) {
		fmt.Fprint(os.Stderr, usage, "\n", err, "\n")
		os.Exit(2)
	}
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "opportunity-data:", err)
		os.Exit(1)
	}
}

// run runs the command with its arguments. It prints one line for each update to out, and each wait
// to log.
func run(ctx context.Context, args []string, out, log io.Writer) error {
	about := map[string]string{"--help": usage, "--version": "opportunity-data " + opportunity.Version + "\n"}
	if len(args) == 1 && about[args[0]] != "" {
		_, err := fmt.Fprint(out, about[args[0]])
		return err
	}
	flags := flag.NewFlagSet("export", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	every := flags.Duration("every", 0, "")
	if len(args) > 0 && args[0] == "verify" {
		return verify(ctx, args[1:], out)
	}
	if len(args) == 0 || args[0] != "export" || flags.Parse(args[1:]) != nil || flags.NArg() != 1 || *every < 0 {
		return errUsage
	}
	store, err := open(ctx, flags.Arg(0))
	if err != nil {
		return err
	}
	client, err := newClient(log)
	if err != nil {
		return err
	}
	for {
		result, err := client.Sync(ctx, store, opportunity.SyncOptions{})
		if err != nil {
			return err
		}
		ids, err := store.IDs(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %d records, %d read, %d removed\n", flags.Arg(0), len(ids), result.Put, result.Removed)
		if *every == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(*every):
		}
	}
}

const userAgent = "opportunity-data/" + opportunity.Version

// newClient returns a client that prints each wait to log.
func newClient(log io.Writer) (*opportunity.Client, error) {
	return opportunity.New(
		opportunity.WithUserAgent(userAgent),
		opportunity.WithRetryHook(func(r opportunity.Retry) {
			fmt.Fprintf(log, "%v; retrying in %v\n", r.Err, r.Wait.Round(100*time.Millisecond))
		}),
	)
}

// open opens the copy in a file.
func open(ctx context.Context, file string) (opportunity.Store, error) {
	switch filepath.Ext(file) {
	case ".db", ".sqlite":
		return openSQLite(ctx, file)
	case ".csv", ".ndjson", ".jsonl":
		return opportunity.OpenFileCopy(file)
	}
	return nil, fmt.Errorf("unknown format of %s: use a name that ends in .db, .sqlite, .csv, .ndjson or .jsonl", file)
}

// openSQLite opens the copy in a database, which may not exist yet.
func openSQLite(ctx context.Context, file string) (opportunity.Store, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	// A URI, so that no character of the name has a meaning of its own (sqlite.org/uri.html).
	uri := url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(filepath.ToSlash(file), "/"),
		RawQuery: "_pragma=busy_timeout(5000)"}
	db, err := sql.Open("sqlite", uri.String())
	if err != nil {
		return nil, err
	}
	return opportunity.NewSQLiteCopy(ctx, db)
}
