package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"opportunity.internal/e2e/bench/report"
	"opportunity.internal/e2e/load"
)

// edge is a record behind each gateway, from the same catalog: this one, the minimal one, nginx with a limit, nginx without, and the minimal
// one with a limit of one call per minute.
type edge struct {
	*stack

	minimal, limiting, forwarding, rejecting *process
	addresses                                [4]string
	noNginx                                  error // why there is no nginx
}

func newEdge(ctx context.Context, s *stack) (*edge, error) {
	e := &edge{stack: s}
	var err error
	for i := range e.addresses {
		if e.addresses[i], err = freeAddress(); err != nil {
			return e, err
		}
	}
	minimal := func(address string, perMinute int) (*process, error) {
		args := []string{"-listen", address, "-redis", "redis://" + s.address["redis"], "-service", "http://" + s.address["catalog"],
			"-keys", strings.Join(s.keys, ","), "-per-minute", fmt.Sprint(perMinute)}
		for name, value := range s.header {
			args = append(args, "-header", name+": "+value)
		}
		return start(s.dir, "minimal gateway", nil, filepath.Join(s.bin, "baseline"), append([]string{"gateway"}, args...)...)
	}
	if e.minimal, err = minimal(e.addresses[0], unlimited); err != nil {
		return e, err
	}
	if e.rejecting, err = minimal(e.addresses[3], 1); err != nil {
		return e, err
	}
	host, port := split(s.address["redis"])
	limiting := nginx{Listen: e.addresses[1], Service: s.address["catalog"], Header: s.header, Keys: s.keys, PerMinute: unlimited,
		RedisHost: host, RedisPort: port}
	forwarding := nginx{Listen: e.addresses[2], Service: s.address["catalog"], Header: s.header}
	if e.limiting, e.noNginx = startNginx(s.dir, limiting); e.noNginx == nil {
		e.forwarding, e.noNginx = startNginx(s.dir, forwarding)
	}
	for _, address := range e.addresses {
		if err := e.listens(ctx, address); err != nil {
			return e, err
		}
	}
	return e, nil
}

// listens waits until something accepts connections at the address, unless that is an nginx and there is none.
func (e *edge) listens(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		if e.noNginx != nil && (address == e.addresses[1] || address == e.addresses[2]) {
			return nil
		}
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no listener at %s: %w\n%s", address, err, e.minimal.lastLines())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (e *edge) close() {
	for _, p := range []*process{e.minimal, e.limiting, e.forwarding, e.rejecting} {
		if p != nil {
			p.stop()
		}
	}
}

// startNginx starts an nginx with files in a directory of its own below dir.
func startNginx(dir string, n nginx) (*process, error) {
	path, err := exec.LookPath("nginx")
	if err != nil {
		if path, err = exec.LookPath("/usr/sbin/nginx"); err != nil {
			return nil, fmt.Errorf("nginx is not installed")
		}
	}
	if n.Dir, err = os.MkdirTemp(dir, "nginx"); err != nil {
		return nil, err
	}
	if err := os.Chmod(n.Dir, 0o755); err != nil { //nolint:gosec // the workers run as another user
		return nil, err
	}
	config, err := n.config()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(n.Dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	if out, err := exec.Command(path, "-p", "/usr/share/nginx", "-t", "-c", file).CombinedOutput(); err != nil { //nolint:gosec,noctx // ends at once
		return nil, fmt.Errorf("nginx does not start: %w: %s", err, out)
	}
	return start(dir, "nginx", nil, path, "-p", "/usr/share/nginx", "-c", file)
}

// record returns a call of one record at an address.
func (s *stack) record(address string, keys []string, status int) load.Target {
	return load.Target{Address: address, Paths: []string{"/api/v1/opportunities/" + recordID(0)}, Keys: keys, Status: status}
}

// saturated makes n calls with 16 connections.
func saturated(n int) calling {
	return func(t load.Target) (load.Result, error) { return load.Saturate(t, n) }
}

// benchGateway compares gateways.
func benchGateway(ctx context.Context, b *bench) (rows []report.Row, err error) {
	s, err := b.filled(ctx, 1000)
	if err != nil {
		return nil, err
	}
	e, err := newEdge(ctx, s)
	defer e.close()
	if err != nil {
		return nil, err
	}
	ours := side{s.record(s.address["gateway"], s.keys, 200), []*process{s.processes["gateway"]}}
	minimal := side{s.record(e.addresses[0], s.keys, 200), []*process{e.minimal}}
	limiting := side{s.record(e.addresses[1], s.keys, 200), []*process{e.limiting}}
	forwarding := side{s.record(e.addresses[2], s.keys, 200), []*process{e.forwarding}}

	f, err := rounds(b.rounds, []side{ours, minimal, minimal}, saturated(8000))
	if err != nil {
		return nil, err
	}
	const unit = "µs of CPU per call"
	rows = append(rows,
		report.Row{What: "noise: the minimal gateway in two places of the same rounds", Unit: unit, Ours: f[1].cpu, Baseline: f[2].cpu},
		report.Row{What: "a record: gateway against the minimal gateway", Unit: unit, Ours: f[0].cpu, Baseline: f[1].cpu, Aim: "at most 0.9"},
		report.Row{What: "the same", Unit: "calls/s", Ours: f[0].rate, Baseline: f[1].rate, Aim: "at least 1.1"},
	)
	rejected := side{s.record(s.address["gateway"], []string{s.smallKey}, 429), ours.processes}
	if _, err := call(ctx, http.MethodGet, "http://"+s.address["gateway"]+"/api/v1/opportunities", s.smallKey, ""); err != nil {
		return nil, err // the one call of the day
	}
	minimalRejected := side{s.record(e.addresses[3], s.keys[:1], 429), []*process{e.rejecting}}
	f, err = rounds(b.rounds, []side{rejected, ours, minimalRejected}, saturated(8000))
	rows = append(rows, row("a call that is rejected with 429 against one that is admitted, at the gateway", unit, "at most 0.5", err, func() (_, _ report.Series) { return f[0].cpu, f[1].cpu }),
		row("a call that is rejected with 429: gateway against the minimal gateway", unit, "", err, func() (_, _ report.Series) { return f[0].cpu, f[2].cpu }))
	if e.noNginx != nil {
		return append(rows, report.Row{What: "nginx", Failed: e.noNginx}), nil
	}
	f, err = rounds(b.rounds, []side{ours, limiting}, saturated(8000))
	rows = append(rows, row("a record against nginx with a limit in Lua and Redis", "calls/s", "at least 0.6", err, func() (_, _ report.Series) { return f[0].rate, f[1].rate }),
		row("the same, gateway against nginx", unit, "", err, func() (_, _ report.Series) { return f[0].cpu, f[1].cpu }))
	steady, err := rounds(b.rounds, []side{ours, forwarding, minimal}, func(t load.Target) (load.Result, error) { return load.At(t, 500, 4*time.Second) })
	return append(rows, row("a record at 500 calls/s against nginx that only forwards: 50th percentile", "ms", "at most 1.35", err, func() (_, _ report.Series) { return steady[0].p50, steady[1].p50 }),
		row("the same: 99th percentile", "ms", "at most 1.4", err, func() (_, _ report.Series) { return steady[0].p99, steady[1].p99 }),
		row("a record at 500 calls/s against the minimal gateway: 50th percentile", "ms", "", err, func() (_, _ report.Series) { return steady[0].p50, steady[2].p50 }),
		row("the same: 99th percentile", "ms", "at most 0.9", err, func() (_, _ report.Series) { return steady[0].p99, steady[2].p99 })), nil
}

// row returns a row of a comparison, or one that says why it failed.
func row(what, unit, aim string, failed error, series func() (ours, baseline report.Series)) report.Row {
	r := report.Row{What: what, Unit: unit, Aim: aim, Failed: failed}
	if failed == nil {
		r.Ours, r.Baseline = series()
	}
	return r
}
