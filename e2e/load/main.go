// Command load asks a running API at a steady rate and counts how each call ended. It is what the run in a cluster holds upgrades
// and outages against, so it hides nothing: no call is made a second time, and whatever is not the answer that was asked for is a
// failure. The verb "wait" does nothing until it is told to end, so that a pod can hold the program for those who exec it.
//
//	load run [--url http://gateway:8080] [--rate 40] [--for 60s] [--paths list=/api/v1/opportunities,...]
//	load running
//	load stop
//	load ask [--url http://gateway:8080] --trace ID PATH
//	load wait
//
// run reads its keys from its standard input, one on each line, and uses them in turn. It ends after --for, or when stop finds it
// by the file with its process id; running tells by its exit code whether there is one. The exit code of run is 0 if every call
// was answered, 3 if not. ask makes one call, with the key on its standard input, as part of a trace.
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
		return 0, fmt.Errorf("no verb %q", args[0])
	}
}

// failed is the exit code of a run in which not every call was answered.
const failed = 3

func start(ctx context.Context, args []string) (int, error) {
	flags := flag.NewFlagSet("load run", flag.ContinueOnError)
	base := flags.String("url", os.Getenv("OPPORTUNITY_E2E_URL"), "address of the gateway")
	rate := flags.Int("rate", 40, "calls per second")
	length := flags.Duration("for", 0, "how long; 0: until stop")
	paths := flags.String("paths", "list=/api/v1/opportunities?country=CA&limit=50,record=/api/v1/opportunities/maple-scribe,"+
		"history=/api/v1/opportunities/maple-scribe/history,page=/account/sign-in", "what is asked for in turn, name=path each")
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
	l := load{rate: *rate, keys: keys}
	if l.client, err = newClient(*base); err != nil {
		return 0, err
	}
	for _, p := range strings.Split(*paths, ",") {
		name, path, ok := strings.Cut(p, "=")
		if !ok {
			return 0, fmt.Errorf("%q is not name=path", p)
		}
		l.asks = append(l.asks, ask{name, path})
	}
	if err := os.WriteFile(running(), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return 0, err
	}
	defer os.Remove(running()) //nolint:errcheck // what is left over names a process that is gone
	sum := l.run(ctx)
	sum.print(os.Stdout)
	if sum.failed() > 0 {
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
		return nil, errors.New("no keys on the standard input")
	}
	return keys, nil
}

// one makes one call that must be answered with 200.
func one(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("load ask", flag.ContinueOnError)
	base := flags.String("url", os.Getenv("OPPORTUNITY_E2E_URL"), "address of the gateway")
	trace := flags.String("trace", "", "id of the trace, 32 hexadecimal digits")
	if err := flags.Parse(args); err != nil {
		return err
	}
	keys, err := readKeys()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, *base+flags.Arg(0), nil) //nolint:gosec // whoever starts it says where to
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+keys[0])
	req.Header.Set("traceparent", "00-"+*trace+"-00f067aa0ba902b7-01")
	resp, err := http.DefaultClient.Do(req) //nolint:gosec // as above
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

// running is the file with the process id of the run that stop ends.
func running() string { return filepath.Join(os.TempDir(), "opportunity-load.pid") }

// stop ends the run and waits until it has.
func stop() error {
	text, err := os.ReadFile(running())
	if err != nil {
		return fmt.Errorf("nothing runs: %w", err)
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
