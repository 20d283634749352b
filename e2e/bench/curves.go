package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"opportunity.internal/e2e/bench/report"
	"opportunity.internal/e2e/load"
)

// benchLists measures lists against the number of records, and imports.
func benchLists(ctx context.Context, b *bench) (rows []report.Row, err error) {
	b.lists = map[string]*report.Line{}
	var small report.Series
	for _, n := range []int{1000, 10_000, 100_000} {
		ours, theirs, err := b.listRate(ctx, n)
		if err != nil {
			return nil, err
		}
		if n == 1000 {
			small = ours
		}
		rows = append(rows, report.Row{What: fmt.Sprintf("a list of 100 of %s records at the catalog against net/http and pgx", number(n)), Unit: "calls/s", Ours: ours, Baseline: theirs})
		if n == 100_000 {
			rows = append(rows, report.Row{What: "the same against the same list of 1,000 records", Unit: "calls/s", Ours: ours, Baseline: small})
		}
	}
	s, err := b.filled(ctx, 100_000)
	if err != nil {
		return nil, err
	}
	rows = append(rows,
		report.Row{What: "import of 100,000 listings", Unit: "s", Ours: report.Series{s.imported.Seconds()}, Aim: "at most 12"},
		report.Row{What: "append of a review of each", Unit: "s", Ours: report.Series{s.appended.Seconds()}, Aim: "at most 12"})
	return rows, b.drawLists()
}

// benchMillion measures 1,000,000 records.
func benchMillion(ctx context.Context, b *bench) (rows []report.Row, err error) {
	const n = 1_000_000
	small, _, err := b.listRate(ctx, 1000)
	if err != nil {
		return nil, err
	}
	ours, _, err := b.listRate(ctx, n)
	if err != nil {
		return nil, err
	}
	if err := b.drawLists(); err != nil {
		return nil, err
	}
	s := b.stack
	rows = append(rows, report.Row{What: "a list of 100 of 1,000,000 records against one of 1,000", Unit: "calls/s", Ours: ours, Baseline: small, Aim: "about 1"})
	var visible report.Series
	for i := range 5 {
		took, err := s.changeVisible(ctx, i, i+1)
		if err != nil {
			return nil, err
		}
		visible = append(visible, took.Seconds())
	}
	restart, err := s.restartCatalog(ctx)
	if err != nil {
		return nil, err
	}
	now, peak, err := s.processes["catalog"].memory(ctx)
	if err != nil {
		return nil, err
	}
	encoded, err := s.encoded(ctx)
	const gib = 1 << 30
	return append(rows,
		report.Row{What: "one recorded review until the API shows it", Unit: "s", Ours: visible, Aim: "at most 1"},
		report.Row{What: "restart of the catalog until it is ready", Unit: "s", Ours: report.Series{restart.Seconds()}, Aim: "at most 15"},
		report.Row{What: "resident memory against encoded records", Unit: "GiB", Ours: report.Series{float64(now) / gib}, Baseline: report.Series{encoded / gib}},
		report.Row{What: "the same, the most during the load", Unit: "GiB", Ours: report.Series{float64(peak) / gib}, Baseline: report.Series{encoded / gib}, Aim: "at most 3.6 GB"},
		report.Row{What: "import of the listings", Unit: "s", Ours: report.Series{s.imported.Seconds()}},
		report.Row{What: "append of a review of each", Unit: "s", Ours: report.Series{s.appended.Seconds()}}), err
}

// listRate measures the first page of n records at the catalog and at the baseline.
func (b *bench) listRate(ctx context.Context, n int) (ours, theirs report.Series, err error) {
	s, err := b.filled(ctx, n)
	if err != nil {
		return nil, nil, err
	}
	other, err := newRecords(ctx, s, n)
	defer other.close()
	if err != nil {
		return nil, nil, err
	}
	// Each run takes about a second, whatever a call takes.
	limited := func(t load.Target) (load.Result, error) {
		first, err := load.Saturate(t, 2*load.Connections)
		if err != nil {
			return first, err
		}
		return load.Saturate(t, int(first.Rate())+load.Connections)
	}
	f, err := rounds(b.rounds, []side{{s.atCatalog(listPath), nil}, {other.list(), nil}}, limited)
	if err != nil {
		return nil, nil, err
	}
	for i, name := range []string{"catalog", "net/http and pgx"} {
		if b.lists != nil {
			if b.lists[name] == nil {
				b.lists[name] = &report.Line{Name: name, Color: i}
			}
			if last := b.lists[name].Points; len(last) == 0 || last[len(last)-1][0] < float64(n) {
				b.lists[name].Points = append(last, [2]float64{float64(n), f[i].rate.Median()})
			}
		}
	}
	return f[0].rate, f[1].rate, nil
}

// drawLists draws the chart of lists, if this run measured it from the start.
func (b *bench) drawLists() error {
	if b.lists == nil {
		return nil
	}
	return b.draw("benchmarks-lists.svg", report.Chart{
		Title: "Lists of 100 records, calls per second", X: "records", Y: "calls/s", LogY: true,
		Lines: []report.Line{*b.lists["catalog"], *b.lists["net/http and pgx"]}, Source: b.source(),
	})
}

// source returns how and when a chart was measured.
func (b *bench) source() string {
	return b.commit + ", " + time.Now().UTC().Format("2 January 2006 15:04") + " UTC"
}

// draw writes a chart to a document.
func (b *bench) draw(name string, chart interface{ SVG() (string, error) }) error {
	svg, err := chart.SVG()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.root, "docs", name), []byte(svg), 0o644) //nolint:gosec // a document
}

// benchLatency measures the latency of a record at growing rates, until a gateway does not keep up.
func benchLatency(ctx context.Context, b *bench) (rows []report.Row, err error) {
	s, err := b.filled(ctx, 1000)
	if err != nil {
		return nil, err
	}
	e, err := newEdge(ctx, s)
	defer e.close()
	if err != nil {
		return nil, err
	}
	names, addresses := []string{"gateway", "minimal gateway"}, []string{s.address["gateway"], e.addresses[0]}
	if e.noNginx == nil {
		names, addresses = append(names, "nginx with a limit"), append(addresses, e.addresses[1])
	}
	var lines []report.Line
	for i, name := range names {
		p50, p99, most, err := latencies(s.record(addresses[i], s.keys, 200))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		lines = append(lines, report.Line{Name: name + ", p50", Color: i, Points: p50}, report.Line{Name: name + ", p99", Color: i, Dashed: true, Points: p99})
		rows = append(rows, report.Row{What: name + ": highest rate that it kept up with", Unit: "calls/s", Ours: report.Series{most}})
	}
	return rows, b.draw("benchmarks-latency.svg", report.Chart{Title: "Latency of a record against the rate of calls", X: "calls/s", Y: "ms", LogY: true, Lines: lines, Source: b.source()})
}

// latencies returns the points of a curve, up to the first rate that the target does not keep up with, and the rate before that.
func latencies(t load.Target) (p50, p99 [][2]float64, most float64, err error) {
	if _, err := load.Saturate(t, 4000); err != nil { // warm up
		return nil, nil, 0, err
	}
	for rate := 250.0; rate <= 32_000; rate *= 1.4142 {
		r, err := load.At(t, rate, 3*time.Second)
		if err != nil {
			if len(p50) > 0 {
				return p50, p99, most, nil // saturated
			}
			return nil, nil, 0, err
		}
		p50 = append(p50, [2]float64{rate, milliseconds(r.Quantile(0.5))})
		p99 = append(p99, [2]float64{rate, milliseconds(r.Quantile(0.99))})
		if r.Rate() < 0.95*rate {
			break
		}
		most = rate
	}
	return p50, p99, most, nil
}

func number(n int) string { return report.Series{float64(n)}.String() }
