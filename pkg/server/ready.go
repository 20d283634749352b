package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Ready collects the conditions for a service to be ready.
type Ready struct {
	stopping atomic.Bool
	mu       sync.RWMutex
	checks   []check
	faults   []func() string
	notes    []string
}

type check struct {
	name string
	ok   func(context.Context) error
}

// Detail is an error of a condition whose text operators may see next to its name.
type Detail string

func (d Detail) Error() string { return string(d) }

// Fault is an error of a condition that operators see in place of its name.
type Fault string

func (f Fault) Error() string { return string(f) }

// Add adds a condition. Every probe checks it. It must return within a second.
func (r *Ready) Add(name string, ok func(context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.checks = append(r.checks, check{name, ok})
}

// Report adds a fault that operators must correct, but that does not make the service unready. It
// returns "" without a fault.
func (r *Ready) Report(fault func() string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, fault)
}

// Note adds a text about what is switched off. It is neither a condition nor a fault.
func (r *Ready) Note(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, text)
}

func (r *Ready) reported() (all []string) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, fault := range r.faults {
		if text := fault(); text != "" {
			all = append(all, text)
		}
	}
	return all
}

// Once returns a condition that holds permanently after check has succeeded once.
func Once(check func(context.Context) error) func(context.Context) error {
	var held atomic.Bool
	return func(ctx context.Context) error {
		if held.Load() {
			return nil
		}
		err := check(ctx)
		if err == nil {
			held.Store(true)
		}
		return err
	}
}

func (r *Ready) stop() {
	if r != nil {
		r.stopping.Store(true)
	}
}

// Missing returns the names of the conditions that do not hold, with the Detail of the error in
// parentheses, or their Faults.
func (r *Ready) Missing(ctx context.Context) []string {
	if r.stopping.Load() {
		return []string{"stopping"}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	r.mu.RLock()
	checks := r.checks
	r.mu.RUnlock()
	missing := make([]string, len(checks))
	var all sync.WaitGroup
	for i, c := range checks {
		all.Go(func() {
			if err := c.ok(ctx); err != nil {
				missing[i] = c.name
				if detail := Detail(""); errors.As(err, &detail) {
					missing[i] += " (" + string(detail) + ")"
				}
				if fault := Fault(""); errors.As(err, &fault) {
					missing[i] = string(fault)
				}
			}
		})
	}
	all.Wait()
	var out []string
	for _, name := range missing {
		if name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// ServeHTTP responds with 200 if every condition holds, otherwise with 503 and the names of those
// that do not. Both have the faults and the notes.
func (r *Ready) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	type state struct {
		Status  string   `json:"status"`
		Missing []string `json:"missing,omitempty"`
		Faults  []string `json:"faults,omitempty"`
		Notes   []string `json:"notes,omitempty"`
	}
	s, status := state{Status: "ready", Faults: r.reported(), Notes: r.notes}, http.StatusOK
	if missing := r.Missing(req.Context()); len(missing) > 0 {
		s.Status, s.Missing, status = "not ready", missing, http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(s)
}

// Operations returns the handler of the operations port: liveness, readiness and metrics.
func Operations(ready *Ready, metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.Handle("GET /readyz", ready)
	mux.Handle("GET /metrics", metrics)
	return mux
}
