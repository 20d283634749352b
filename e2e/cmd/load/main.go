// Command load calls a running API at a steady rate and counts the outcomes of the calls. The
// cluster test uses it to measure the effect of upgrades and outages, so it never retries, and
// every response other than 200 is a failure.
//
//	load run [--url http://gateway:8080] [--rate 40] [--for 60s]
//	  [--paths list=/api/v1/opportunities,...]
//	load running
//	load stop
//	load ask [--url http://gateway:8080] PATH
//	load wait
//
// run reads keys from standard input, one per line, and uses them in turn. It ends after --for or
// on stop, which finds its process id in a file, and fails if a call failed. running fails if there
// is no run. ask makes one call with the key from standard input, and prints its request ID. wait
// blocks until it is stopped, so that a pod can run the program for use with kubectl exec.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"opportunity.internal/e2e/load"
)

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func command(args []string) error {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	if len(args) == 0 {
		return errors.New("usage: load run | running | stop | ask | wait")
	}
	flags := flag.NewFlagSet("load "+args[0], flag.ContinueOnError)
	base := flags.String("url", os.Getenv("OPPORTUNITY_E2E_URL"), "address of the gateway")
	rate := flags.Int("rate", 40, "calls per second")
	length := flags.Duration("for", 0, "duration; 0: until stop")
	paths := flags.String("paths", "list=/api/v1/opportunities?country=CA&limit=50,"+
		"record=/api/v1/opportunities/maple-scribe,history=/api/v1/opportunities/maple-scribe/history,page=/account/sign-in",
		"paths to call in turn, as name=path")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "run":
		if *length > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, *length)
			defer cancel()
		}
		return run(ctx, *base, *rate, *paths)
	case "running":
		_, err := os.Stat(running())
		return err
	case "stop":
		return stop()
	case "ask":
		return ask(ctx, *base+flags.Arg(0))
	case "wait":
		<-ctx.Done()
		return nil
	default:
		return fmt.Errorf("unknown verb %q: use run, running, stop, ask or wait", args[0])
	}
}

func run(ctx context.Context, base string, rate int, paths string) error {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" || u.Host == "" || rate < 1 || rate > 10_000 {
		return fmt.Errorf("invalid --url %q or --rate %d: use the http URL of a gateway and 1 to 10000", base, rate)
	}
	if u.Port() == "" {
		u.Host += ":80"
	}
	l := load.Load{Address: u.Host}
	var names []string
	for _, p := range strings.Split(paths, ",") {
		name, path, ok := strings.Cut(p, "=")
		if !ok {
			return fmt.Errorf("invalid --paths %q: use name=path", p)
		}
		names, l.Paths = append(names, name), append(l.Paths, path)
	}
	if l.Keys, err = readKeys(); err != nil {
		return err
	}
	if err := os.WriteFile(running(), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return err
	}
	defer os.Remove(running()) //nolint:errcheck // a leftover file has the id of an ended process
	result := makeCalls(ctx, l, names, rate)
	fmt.Print(result)
	if result.Failed > 0 {
		return errors.New("calls failed")
	}
	return nil
}

func readKeys() ([]string, error) {
	text, err := io.ReadAll(os.Stdin)
	keys := strings.Fields(string(text))
	if err == nil && len(keys) == 0 {
		err = errors.New("no keys on standard input")
	}
	return keys, err
}

func ask(ctx context.Context, address string) error {
	keys, err := readKeys()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil) //nolint:gosec // the URL is an argument
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+keys[0])
	resp, err := http.DefaultClient.Do(req) //nolint:gosec // as above
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	fmt.Println(resp.Header.Get("X-Request-Id"))
	return nil
}

// running returns the path of the file with the process id of the run.
func running() string { return filepath.Join(os.TempDir(), "opportunity-load.pid") }

// stop stops the run and waits until it has ended.
func stop() error {
	text, err := os.ReadFile(running())
	if err != nil {
		return fmt.Errorf("no run to stop: %w", err)
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return err
	}
	for {
		if _, err := os.Stat(running()); errors.Is(err, os.ErrNotExist) {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
}
