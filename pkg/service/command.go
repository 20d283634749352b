package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/telemetry"
)

// Verb is a subcommand of one service.
type Verb[C any] struct {
	Usage string // synopsis of its arguments, such as "[--at DATE] ID"; empty if it takes none
	Help  string // what it does, in one sentence
	// Load loads the settings, if the verb needs fewer than the service. If nil, all settings are
	// loaded.
	Load func(lookup func(string) (string, bool)) (C, error)
	// Run executes the verb with the arguments after its name.
	Run func(ctx context.Context, cfg C, args []string) error
}

// Main runs one verb with settings from lookup: serve, migrate (with a database), check, ready, or
// one of own, which may be nil. Before them, and after the name of any, --help prints help;
// --version prints the version. Neither needs a setting.
func (d Definition[C]) Main(ctx context.Context, lookup func(string) (string, bool), args []string,
	own map[string]Verb[C]) error {
	verbs := d.verbs(lookup)
	maps.Copy(verbs, own)
	if len(args) == 0 {
		return d.usage(verbs)
	}
	name, args := args[0], args[1:]
	verb, known := verbs[name]
	switch {
	case len(args) == 0 && slices.Contains(helpFlags, name):
		return d.help(os.Stdout, verbs)
	case len(args) == 0 && name == "--version":
		_, err := fmt.Fprintln(os.Stdout, telemetry.ReadBuild().String(d.Name))
		return err
	case known && slices.ContainsFunc(args, func(arg string) bool { return slices.Contains(helpFlags, arg) }):
		return d.help(os.Stdout, map[string]Verb[C]{name: verb})
	case !known || len(args) > 0 && verb.Usage == "":
		return d.usage(verbs)
	}
	if verb.Load == nil {
		verb.Load = config.Load[C]
	}
	cfg, err := verb.Load(lookup)
	if err != nil {
		return err
	}
	return verb.Run(ctx, cfg, args)
}

// Command runs main with the environment and the arguments of the process, until SIGINT or SIGTERM.
// After an error the exit code is 1.
func Command(name string, main func(context.Context, func(string) (string, bool), []string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := main(ctx, os.LookupEnv, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

var helpFlags = []string{"--help", "-h", "-help", "help"}

func (d Definition[C]) verbs(lookup func(string) (string, bool)) map[string]Verb[C] {
	loadsItself := func(func(string) (string, bool)) (c C, err error) { return c, nil }
	verbs := map[string]Verb[C]{
		"serve": {Help: "Serve until SIGTERM, then finish the requests in progress.", Run: d.serve},
		"check": {
			Usage: "[--settings]", Help: "Check settings, schema and connections; with --settings, only the settings.",
			Run: d.checkVerb,
		},
		"ready": {
			Help: "Exit with 0 if the process that serves on this machine is ready.", Load: loadsItself,
			Run: func(ctx context.Context, _ C, _ []string) error { return ready(ctx, lookup) },
		},
	}
	if d.Migrations != nil {
		verbs["migrate"] = Verb[C]{
			Help: "Bring the schema of the database up to date.", Load: loadsItself,
			Run: func(ctx context.Context, _ C, _ []string) error { return d.migrateFrom(ctx, lookup) },
		}
	}
	return verbs
}

func (d Definition[C]) serve(ctx context.Context, cfg C, _ []string) error {
	return d.run(ctx, cfg, func(r *Runtime) {
		for _, warning := range config.Unknown(os.Environ()) {
			r.Log.WarnContext(ctx, warning)
		}
	})
}

func (d Definition[C]) checkVerb(ctx context.Context, cfg C, args []string) error {
	settingsOnly := slices.Equal(args, []string{"--settings"})
	if len(args) > 0 && !settingsOnly {
		return fmt.Errorf("usage: %s check [--settings]", d.Name)
	}
	for _, warning := range config.Unknown(os.Environ()) {
		fmt.Fprintln(os.Stderr, d.Name+": warning:", warning)
	}
	return d.check(ctx, cfg, settingsOnly)
}

// migrateFrom migrates with the database settings alone, so that its job has no other secret.
func (d Definition[C]) migrateFrom(ctx context.Context, lookup func(string) (string, bool)) error {
	s, err := config.Load[struct {
		Telemetry telemetry.Config
		Database  database.Config
	}](lookup)
	if err = errors.Join(err, s.Database.Validate()); err != nil {
		return err
	}
	return d.migrate(ctx, Base{Telemetry: s.Telemetry, Database: s.Database})
}

func (d Definition[C]) usage(verbs map[string]Verb[C]) error {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(verbs)) {
		lines = append(lines, strings.TrimSpace(name+" "+verbs[name].Usage))
	}
	return fmt.Errorf("usage: %s %s", d.Name, strings.Join(lines, " | "))
}

func (d Definition[C]) help(out io.Writer, verbs map[string]Verb[C]) error {
	fmt.Fprintln(out, "Usage:")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, name := range slices.Sorted(maps.Keys(verbs)) {
		v := verbs[name]
		fmt.Fprintf(w, "  %s\t%s\n", strings.TrimSpace(d.Name+" "+name+" "+v.Usage), v.Help)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, "Settings are environment variables: see docs/configuration.md.")
	return err
}

// readyTimeout limits the time for the response of the process.
const readyTimeout = 5 * time.Second

// ready returns an error unless the service on this machine is ready. It is the health check of a
// container without a shell. It loads only the address of the operations port, so it needs no
// secret and opens no database.
func ready(ctx context.Context, lookup func(string) (string, bool)) error {
	cfg, err := config.Load[server.Config](lookup)
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(cfg.OperationsListen)
	if err != nil {
		return fmt.Errorf("OPPORTUNITY_OPERATIONS_LISTEN: %w", err)
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() { // it listens on all addresses
		host = "localhost"
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return peer.CheckReady(ctx, "http://"+net.JoinHostPort(host, port))
}
