// Command load calls a running API at a steady rate and counts the outcomes of the calls. The cluster test uses it to measure the effect of
// upgrades and outages, so it never retries, and every response other than 200 is a failure. The verb "wait" blocks until it is stopped, so
// that a pod can run the program for use with kubectl exec.
//
//	load run [--url http://gateway:8080] [--rate 40] [--for 60s] [--paths list=/api/v1/opportunities,...]
//	load running
//	load stop
//	load ask [--url http://gateway:8080] PATH
//	load wait
//
// run reads keys from standard input, one per line, and uses them in turn. It ends after --for or on stop, which finds its process id in a
// file. running exits with 0 if there is a run, otherwise with 1. run exits with 0 if all calls succeeded, otherwise with 3. ask makes one
// call with the key from standard input, and prints its request ID.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
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
	code, err := command(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		code = 1
	}
	os.Exit(code)
}

func command(args []string) (code int, err error) {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	if len(args) == 0 {
		return 0, errors.New("usage: load run | running | stop | ask | wait")
	}
	switch args[0] {
	case "run":
		return start(ctx, args[1:])
	case "running":
		_, err := os.Stat(running())
		return 0, err
	case "stop":
		return 0, stop()
	case "ask":
		return 0, one(ctx, args[1:])
	case "wait":
		<-ctx.Done()
		return 0, nil
	default:
		return 0, fmt.Errorf("unknown verb %q: use run, running, stop, ask or wait", args[0])
	}
}

// failed is the exit code of a run with failed calls.
const failed = 3

func start(ctx context.Context, args []string) (int, error) {
	flags := flag.NewFlagSet("load run", flag.ContinueOnError)
	base := flags.String("url", os.Getenv("OPPORTUNITY_E2E_URL"), "address of the gateway")
	rate := flags.Int("rate", 40, "calls per second")
	length := flags.Duration("for", 0, "duration; 0: until stop")
	paths := flags.String("paths", "list=/api/v1/opportunities?country=CA&limit=50,record=/api/v1/opportunities/maple-scribe,"+
		"history=/api/v1/opportunities/maple-scribe/history,page=/account/sign-in", "paths to call in turn, as name=path")
	if err := flags.Parse(args); err != nil {
		return 0, err
	}
	keys, err := readKeys()
	if err != nil {
		return 0, err
	}
	if *length > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *length)
		defer cancel()
	}
	l := load.Steady{URL: *base, Rate: *rate, Keys: keys}
	for _, p := range strings.Split(*paths, ",") {
		name, path, ok := strings.Cut(p, "=")
		if !ok {
			return 0, fmt.Errorf("invalid --paths %q: use name=path", p)
		}
		l.Targets = append(l.Targets, load.Named{Name: name, Path: path})
	}
	if err := os.WriteFile(running(), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return 0, err
	}
	defer os.Remove(running()) //nolint:errcheck // a leftover file has the id of an ended process
	sum, err := l.Run(ctx)
	if err != nil {
		return 0, err
	}
	sum.Print(os.Stdout)
	if sum.Failed() > 0 {
		return failed, nil
	}
	return 0, nil
}

func readKeys() ([]string, error) {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return nil, err
	}
	keys := strings.Fields(string(text))
	if len(keys) == 0 {
		return nil, errors.New("no keys on standard input")
	}
	return keys, nil
}

// one makes one call. It returns an error unless the status is 200.
func one(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("load ask", flag.ContinueOnError)
	base := flags.String("url", os.Getenv("OPPORTUNITY_E2E_URL"), "address of the gateway")
	if err := flags.Parse(args); err != nil {
		return err
	}
	keys, err := readKeys()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, *base+flags.Arg(0), nil) //nolint:gosec // the URL is an argument
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
