// Package up runs the whole API in one process: the services as they run in the cluster, each through its own Run, with HTTP
// over loopback between them, on SQLite files and an embedded Redis server.
package up

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"time"

	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/cmd/opportunity/internal/operator"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/redisdb/embedded"
	"opportunity.internal/services/billing"
)

// Options are what a start is told.
type Options struct {
	Listen      string // public address
	AdminListen string
	DataDir     string
	Seed        string    // sample or none; only the first start on a data directory looks at it
	Out, Err    io.Writer // for people: what to do next; warnings
}

// Run serves until ctx ends, then drains.
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
	dir, err := openDir(o.DataDir)
	if err != nil {
		return err
	}
	defer dir.unlock()
	logFile, err := os.OpenFile(dir.file("log.jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer logFile.Close()
	redis, err := embedded.Start("127.0.0.1:0")
	if err != nil {
		return err
	}
	defer redis.Close() // last of all: the ledger reads the counters as it ends

	h, err := newHouse(ctx, dir, public, admin, redis.URL(), logs{logFile, o.Err})
	if err != nil {
		return err
	}
	if err := h.migrate(ctx); err != nil {
		return err
	}
	return h.stages().run(ctx, func(ctx context.Context) error {
		keys, err := h.firstStart(ctx, dir, o.Seed)
		if err != nil {
			return err
		}
		h.filled.Store(true)
		announce(o.Out, h, dir, keys)
		return nil
	})
}

// listen opens the address that flag names. Its errors say what to do.
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

// firstStart waits until everything serves and completes what a first start has to do.
func (h *house) firstStart(ctx context.Context, dir *dataDir, kind string) (map[api.Tier]string, error) {
	if err := h.ready(ctx); err != nil {
		return nil, err
	}
	client := operator.Client{URL: h.adminURL, Token: h.operatorToken, Actor: "opportunity up", HTTP: http.DefaultClient}
	keys := map[api.Tier]string{}
	if err := dir.read(keysFile, &keys); err != nil {
		return nil, err
	}
	if len(keys) == len(api.Tiers) {
		return keys, nil // written last: nothing of a first start is left to do
	}
	sampled, err := seed(ctx, dir, client, kind)
	if err != nil {
		return nil, err
	}
	if sampled {
		settle(ctx, h.catalogURL, h.historyURL, h.internalToken)
	}
	return keys, demoKeys(ctx, dir, client, keys)
}

// ready waits until every service behind the gateway can serve; the gateway itself can from the beginning.
func (h *house) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for _, service := range []string{h.authquotaURL, h.catalogURL, h.historyURL, h.billingURL} {
		for !answers(ctx, service+"/readyz") {
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s did not become ready", service)
			case <-tick.C:
			}
		}
	}
	return nil
}

// answers reports whether GET url answers 200.
func answers(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
}

// announce prints what to do next.
func announce(out io.Writer, h *house, dir *dataDir, keys map[api.Tier]string) {
	base := h.publicURL
	fmt.Fprintf(out, "The Opportunity Data API is running.\n\n  API             %s\n  Documentation   %s/docs\n  Account pages   %s/account\n", base, base, base)
	fmt.Fprintf(out, "  Admin listener  %s\n\nDemo keys, saved in %s:\n", h.adminURL, dir.file(keysFile))
	for _, t := range api.Tiers {
		fmt.Fprintf(out, "  %-11s %s\n", t.Tier, keys[t.Tier])
	}
	fmt.Fprintf(out, "\nTry it:\n  curl -H 'Authorization: Bearer %s' '%s/api/v1/opportunities?country=CA'\n\n", keys[api.Developer], base)
	if h.billing.Processor == billing.Sandbox {
		fmt.Fprintln(out, "Payments go to a sandbox: no money moves.")
	}
	if to, err := url.Parse(h.authquota.Mail.URL); err == nil && to.Scheme == "file" {
		fmt.Fprintf(out, "Email is not sent: it is saved in %s.\n", to.Path)
	}
	fmt.Fprintf(out, "Press Ctrl-C to stop. All data stays in %s.\n", dir.path)
}
