// Package up runs the whole API in one process, on SQLite files and an embedded Redis server. Each
// service runs through its own Run function, as in a cluster, and the services call each other over
// HTTP on the loopback interface.
//
// Run opens all listeners and the dataDir, which has every file and secret. A deployment has the
// settings of the five services; they run as stages of jobs, so that each stops only after those
// that call it. The first start imports the sample and issues demo keys (seed.go).
package up

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/desk"
	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/cmd/opportunity/internal/verbs"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/redisdb/embedded"
	"opportunity.internal/pkg/service"
	"opportunity.internal/services/billing"
)

// Options configures Run.
type Options struct {
	Listen      string // public address
	AdminListen string
	DeskListen  string // loopback address of the curation desk
	// Of the gateway; catalog, history, authquota and billing use the next ports. Port 0: free ports.
	OperationsListen string
	AnyDeskPort      bool // use a free port if DeskListen is in use
	DataDir          string
	Seed             string    // sample or none; used only by the first start in a data directory
	Out, Err         io.Writer // output for people: next steps; warnings
}

// Run serves until ctx ends, then stops after open requests are done.
func Run(ctx context.Context, o Options) error {
	public, err := listen(ctx, o.Listen, "--listen")
	if err != nil {
		return err
	}
	defer public.Close()
	admin, err := listen(ctx, o.AdminListen, "--admin-listen")
	if err != nil {
		return err
	}
	defer admin.Close()
	deskListener, err := listen(ctx, o.DeskListen, "--desk-listen")
	if err != nil && o.AnyDeskPort {
		deskListener, err = listen(ctx, "127.0.0.1:0", "--desk-listen")
	}
	if err != nil {
		return err
	}
	defer deskListener.Close()
	dir, err := openDataDir(o.DataDir)
	if err != nil {
		return err
	}
	defer dir.Unlock()
	output, err := openLogs(dir.File("log.jsonl"), o.Err)
	if err != nil {
		return err
	}
	defer func() { _ = output.Close() }()
	redis, err := startRedis(dir.File(verbs.RedisFile))
	if err != nil {
		return err
	}
	defer redis.Close() // closes last, because authquota reads the counters when it stops
	save := func() error { return redis.Save(dir.File(verbs.RedisFile), counter.Epochs, counter.Marks) }
	defer func() { _ = save() }()

	d, err := newDeployment(ctx, dir, public, admin, o.OperationsListen, redis.URL(), output)
	if err != nil {
		return err
	}
	if d.desk, err = desk.New(desk.Options{
		Listener: deskListener, PublicURL: os.Getenv("OPPORTUNITY_DESK_URL"), AdminURL: d.adminURL, Token: d.operatorToken,
		Actor: adminapi.Actor(), Now: time.Now, LinksOff: d.linksOff(), Log: d.log,
	}); err != nil {
		return err
	}
	if err := d.migrate(ctx); err != nil {
		return err
	}
	first := []job{
		d.repeated(0, service.Loop{Name: "save of Redis", Interval: saveInterval,
			Do: func(context.Context) error { return save() }}),
		d.repeated(0, service.Loop{Name: "explanation", Interval: explainInterval,
			Do: func(ctx context.Context) error { d.explain(ctx, o.Err); return nil }}),
	}
	return append(stages{first}, d.stages()...).run(ctx, func(ctx context.Context) error {
		keys, err := d.firstStart(ctx, o.Seed)
		if err != nil {
			return err
		}
		d.seeded.Store(true)
		debug.FreeOSMemory() // what the start needed
		printWelcome(o.Out, d, keys)
		return nil
	})
}

// startRedis starts a Redis with what it saved in file, and with a random password: without it,
// every user of the machine could change the counters.
func startRedis(file string) (*embedded.Server, error) {
	s, err := embedded.Start("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.RequirePassword(rand.Text())
	if err := s.Load(file); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// saveInterval is the time between calls of save. What changed since the last one is not noticed
// after a crash.
const saveInterval = time.Second

// explainInterval is the time between requests for the readiness of each service. Each opens a
// connection and reads databases.
const explainInterval = 5 * time.Second

// listen opens a listener at address, the value of flag. Its errors tell the user how to choose
// another address.
func listen(ctx context.Context, address, flag string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, flags.Usage("invalid %s %q: use HOST:PORT, such as 127.0.0.1:8080", flag, address)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	free := fmt.Sprintf("%s %s picks a free port", flag, net.JoinHostPort(host, "0"))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is in use by another process: stop it, or choose another port; %s", address, free)
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		return nil, fmt.Errorf("cannot listen on %s: %w; choose another address; %s", address, op.Err, free)
	}
	return l, err
}

// firstStart waits until every service is ready, then imports the sample and issues demo keys if an
// earlier start has not done so.
func (d *deployment) firstStart(ctx context.Context, kind string) (map[api.Tier]string, error) {
	if err := d.ready(ctx); err != nil {
		return nil, err
	}
	client := adminapi.Client{URL: d.adminURL, Token: d.operatorToken, Actor: "opportunity up", HTTP: http.DefaultClient}
	keys := map[api.Tier]string{}
	if err := d.dir.Read(keysFile, &keys); err != nil {
		return nil, err
	}
	if len(keys) == len(api.Tiers) {
		return keys, nil // the first start writes these last, so it is complete
	}
	hasSample, err := seed(ctx, d.dir, client, kind)
	if err != nil {
		return nil, err
	}
	if hasSample {
		waitForSample(ctx, client)
	}
	return keys, demoKeys(ctx, d.dir, client, keys)
}

// readyTimeout limits the wait for the services at the start.
const readyTimeout = 2 * time.Minute

// ready waits until every service behind the gateway is ready. The gateway itself is ready from the
// start. It returns an error after readyTimeout, unless a database was set back: then it waits for
// the decision.
func (d *deployment) ready(ctx context.Context) error {
	deadline := time.Now().Add(readyTimeout)
	for _, name := range databases {
		for {
			err := peer.CheckReady(ctx, d.urls[name])
			if err == nil {
				break
			}
			interval := 5 * time.Millisecond
			if setBack(err) { // explain names the remedy
				interval, deadline = time.Second, time.Now().Add(readyTimeout)
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("%s did not become ready: %w", name, err)
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(interval):
			}
		}
	}
	return nil
}

// setBack reports whether a service is not ready because its database was set back.
func setBack(err error) bool {
	missing := new(peer.NotReadyError)
	return errors.As(err, &missing) && slices.Contains(missing.Missing, api.SetBackCondition)
}

// explain writes to errs what to do about each database that was set back since the last call. A
// service may be ready before another one shows it what it lacks.
func (d *deployment) explain(ctx context.Context, errs io.Writer) {
	for _, name := range databases {
		stopped := setBack(peer.CheckReady(ctx, d.urls[name]))
		if stopped && !d.explained[name] {
			fmt.Fprintf(errs, setBackHelp, name, d.dir.Path)
		}
		d.explained[name] = stopped
	}
}

// setBackHelp explains what to do if the database of a service was set back. The arguments are the
// service and the data directory.
const setBackHelp = `%[1]s.db is older than what others remember of it: it was restored from a backup or replaced.
%[1]s serves nothing until you put the newer file back, or decide in another terminal:

  opportunity recover %[1]s --data-dir %[2]s --accept    gives up what is missing; --help says what that does
  opportunity recover %[1]s --data-dir %[2]s --current   nothing is missing

`

func printWelcome(out io.Writer, d *deployment, keys map[api.Tier]string) {
	base := d.publicURL
	fmt.Fprintf(out, "The Opportunity Data API is running.\n\n  API             %s\n  Documentation   %s/docs\n  "+
		"Account pages   %s/account\n", base, base, base)
	fmt.Fprintf(out, "  Admin listener  %s\n  Curation desk   %s\n\nDemo keys, saved in %s:\n", d.adminURL,
		d.desk.SignInURL(), d.dir.File(keysFile))
	for _, t := range api.Tiers {
		fmt.Fprintf(out, "  %-11s %s\n", t.Tier, keys[t.Tier])
	}
	fmt.Fprintf(out, "\nTry it:\n  curl -H 'Authorization: Bearer %s' '%s/api/v1/opportunities?country=CA&limit=1'\n\n",
		keys[api.ExampleTier], base)
	if d.billing.Processor == billing.Sandbox {
		fmt.Fprintln(out, "Payments go to a sandbox: no money moves.")
	}
	if to, err := url.Parse(d.authquota.Mail.URL); err == nil && to.Scheme == "file" {
		fmt.Fprintf(out, "Email is not sent: it is saved in %s.\n", to.Path)
	}
	if text := d.linksOff(); text != "" {
		fmt.Fprintln(out, text)
	}
	fmt.Fprintf(out, "Press Ctrl-C to stop. All data stays in %s.\n", d.dir.Path)
}
