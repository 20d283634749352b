package setback

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
)

// Guard stops a service while its database is set back.
type Guard struct {
	Store

	log    *slog.Logger
	metric prometheus.Gauge

	mu    sync.Mutex
	known Mark          // the newest one that this process has verified
	lacks []string      // empty: not set back
	moved chan struct{} // closed when known changes or the database is set back
}

// New returns a guard of a store. It registers its metric.
func New(name string, store Store, log *slog.Logger, registry prometheus.Registerer) *Guard {
	metric := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "store_set_back", ConstLabels: prometheus.Labels{"store": name},
		Help: "1 while the database lacks changes that were seen outside it and no operator has decided what to do, " +
			"otherwise 0.",
	})
	registry.MustRegister(metric)
	return &Guard{Store: store, log: log, metric: metric, moved: make(chan struct{})}
}

// Err returns an error (503) that wraps ErrSetBack while the database is set back.
func (g *Guard) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.lacks) == 0 {
		return nil
	}
	e := problem.Unavailable(ErrSetBack)
	e.Reported = true // by set
	return e
}

// Known returns the newest mark that this process has verified, or the zero mark.
func (g *Guard) Known() Mark {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.known
}

// Made makes m, which is in the database, the newest mark that this process knows.
func (g *Guard) Made(m Mark) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known != m {
		g.known = m
		g.wake()
	}
}

// Moved returns a channel that is closed when this process knows another mark, so that the database
// has changed, or when the database is set back.
func (g *Guard) Moved() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.moved
}

func (g *Guard) wake() {
	close(g.moved)
	g.moved = make(chan struct{})
}

// Poll verifies the newest mark that this process knows and the claims of all processes. Call it at
// the start and every second.
func (g *Guard) Poll(ctx context.Context) error {
	_, _, err := g.Verify(ctx)
	return err
}

// Verify verifies that the database has what marks name, the claims of all processes, and the
// newest mark that this process knows. It returns the newest mark of the database, and whether any
// of marks is of a generation that was given up. It returns an error (503) if the database is set
// back. Texts of another form are ignored.
func (g *Guard) Verify(ctx context.Context, marks ...string) (newest Mark, lost bool, err error) {
	newest, claims, err := g.state(ctx)
	if err != nil {
		return newest, false, err
	}
	var lacks []string
	for i, text := range slices.Concat(marks, claims, []string{g.Known().String()}) {
		m, ok := Parse(text)
		claimed := slices.Contains(claims, text)
		if !ok && !claimed || slices.Contains(lacks, text) {
			continue
		}
		verdict := Lacking // of a claim that is no mark
		if ok && m == newest {
			verdict = Present
		} else if ok {
			verdict, err = g.Verdict(ctx, m)
		}
		switch {
		case err != nil:
			return newest, false, err
		case verdict == Lacking:
			lacks = append(lacks, text)
			if !claimed {
				err = g.claim(ctx, text)
			}
		case claimed:
			err = g.deleteClaim(ctx, text)
		}
		if err != nil {
			return newest, false, err
		}
		lost = lost || verdict == GivenUp && i < len(marks)
	}
	if g.set(ctx, lacks); len(lacks) > 0 {
		return newest, lost, g.Err()
	}
	g.Made(newest)
	return newest, lost, nil
}

// Claim stops the service, although no mark shows that the database lacks anything: an operator has
// to decide. Why is a word.
func (g *Guard) Claim(ctx context.Context, why string) error {
	if err := g.claim(ctx, why); err != nil {
		return err
	}
	g.set(ctx, []string{why})
	return g.Err()
}

func (g *Guard) set(ctx context.Context, lacks []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := len(g.lacks)
	g.lacks = lacks
	g.metric.Set(float64(min(1, len(lacks))))
	switch {
	case before == 0 && len(lacks) > 0:
		g.wake()
		g.log.ErrorContext(ctx,
			"database set back: it lacks what was seen outside it; recover the database, or decide with the verb recover",
			"lacks", strings.Join(lacks, ", "))
	case before > 0 && len(lacks) == 0:
		g.log.InfoContext(ctx, "database no longer set back")
	}
}

// Held reports whether background work must wait: the database is set back, or was never compared
// by this process and cannot be now.
func (g *Guard) Held(ctx context.Context) bool {
	if g.Known() == (Mark{}) && g.Poll(ctx) != nil {
		return true
	}
	return g.Err() != nil
}

// UnlessSetBack returns do for a loop that does nothing while Held.
func (g *Guard) UnlessSetBack(do func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if g.Held(ctx) {
			return nil
		}
		return do(ctx)
	}
}

// readyPath is the path of the readiness, which is served while the database is set back.
const readyPath = "/readyz"

// Handler returns a handler that serves api.MarkPath, and all other requests by next unless the
// database is set back.
func (g *Guard) Handler(next http.Handler, problems problem.Writer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := g.Err()
		newest, seen := g.Known(), r.URL.Query()["seen"]
		if other := func(text string) bool { return text != newest.String() }; r.URL.Path == api.MarkPath &&
			(newest == (Mark{}) || slices.ContainsFunc(seen, other)) { // Poll verifies the known one
			newest, _, err = g.Verify(r.Context(), seen...)
		}
		switch {
		case r.URL.Path == readyPath:
			next.ServeHTTP(w, r)
		case err != nil:
			if e := problem.Of(err); errors.Is(err, ErrSetBack) && strings.HasPrefix(r.URL.Path, "/operator/") {
				e.Message = "The database of this service was set back. Nothing is served or changed until you decide: see the " +
					"runbook OpportunityStoreSetBack."
				err = e
			}
			problems.Write(w, r, err)
		case r.URL.Path == api.MarkPath:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(newest.String()) // the caller disconnected
		default:
			next.ServeHTTP(w, r)
		}
	})
}
