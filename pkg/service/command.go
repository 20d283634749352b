package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
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
	// Load loads the settings, if the verb needs fewer than the service. If nil, all settings are
	// loaded.
	Load func(lookup func(string) (string, bool)) (C, error)
	// Run executes the verb with the arguments after its name.
	Run func(ctx context.Context, cfg C, args []string) error
}

// Main runs one verb with settings from lookup: serve, migrate (with a database), check, ready, or
// one of own, which may be nil. Only check and those of own take arguments.
func (d Definition[C]) Main(ctx context.Context, lookup func(string) (string, bool), args []string,
	own map[string]Verb[C]) error {
	if len(args) == 0 {
		return d.usage(own)
	}
	name, args := args[0], args[1:]
	verb, isOwn := own[name]
	settingsOnly := name == "check" && slices.Equal(args, []string{"--settings"})
	if len(args) > 0 && !settingsOnly && (!isOwn || verb.Usage == "") {
		return d.usage(own)
	}
	switch {
	case isOwn:
	case name == "migrate" && d.Migrations != nil:
		return d.migrateFrom(ctx, lookup)
	case name == "ready":
		return ready(ctx, lookup)
	case name == "serve":
		verb.Run = func(ctx context.Context, cfg C, _ []string) error {
			return d.run(ctx, cfg, func(r *Runtime) {
				for _, warning := range config.Unknown(os.Environ()) {
					r.Log.WarnContext(ctx, warning)
				}
			})
		}
	case name == "check":
		verb.Run = func(ctx context.Context, cfg C, _ []string) error {
			for _, warning := range config.Unknown(os.Environ()) {
				fmt.Fprintln(os.Stderr, d.Name+": warning:", warning)
			}
			return d.check(ctx, cfg, settingsOnly)
		}
	default:
		return d.usage(own)
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

func (d Definition[C]) usage(own map[string]Verb[C]) error {
	verbs := []string{"serve", "migrate", "check [--settings]", "ready"}
	if d.Migrations == nil {
		verbs = []string{"serve", "check [--settings]", "ready"}
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		verbs = append(verbs, strings.TrimSpace(name+" "+own[name].Usage))
	}
	return fmt.Errorf("usage: %s %s", d.Name, strings.Join(verbs, " | "))
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
