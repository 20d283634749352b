package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"opportunity.internal/e2e/bench/report"
	"opportunity.internal/e2e/load"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
)

const listPath = "/api/v1/opportunities?limit=100"

// benchCatalog measures lists in each encoding, a record against Postgres, and memory, with 100,000 records.
func benchCatalog(ctx context.Context, b *bench) ([]report.Row, error) {
	const n = 100_000
	s, err := b.filled(ctx, n)
	if err != nil {
		return nil, err
	}
	var pages []string
	for page := 1; page <= n/100; page++ {
		pages = append(pages, listPath+"&page="+strconv.Itoa(page))
	}
	var rows []report.Row
	for _, encoding := range []string{"gzip", "zstd"} {
		f, err := rounds(b.rounds, s.encodings(encoding, listPath), saturated(1000))
		rows = append(rows, encodingRows("a list of 100 records, the same one each time, "+encoding+" against identity", "at most 1.1", f, err)...)
		f, err = rounds(b.rounds, s.encodings(encoding, pages...), saturated(len(pages)))
		rows = append(rows, encodingRows("a walk of all 1,000 pages, each for the second time or more", "", f, err)...)
		f, err = s.firstWalks(ctx, 3, encoding, pages)
		rows = append(rows, encodingRows("the same walk, each page for the first time", "at most 2", f, err)...)
	}
	other, err := newRecords(ctx, s, n)
	defer other.close()
	if err != nil {
		return append(rows, report.Row{What: "a record against pgx", Failed: err}), nil
	}
	f, err := rounds(b.rounds, []side{{s.atCatalog("/api/v1/opportunities/" + recordID(n/2)), nil}, {other.record(recordID(n / 2)), nil}}, saturated(8000))
	rows = append(rows, row("a record by id at the catalog against net/http and pgx by primary key", "calls/s", "at least 2.5", err,
		func() (_, _ report.Series) { return f[0].rate, f[1].rate }))
	memory, err := s.benchMemory(ctx, n, pages)
	if err != nil {
		return append(rows, report.Row{What: "memory of the catalog", Failed: err}), nil
	}
	return append(rows, memory...), nil
}

// encodings returns lists through gateway and catalog, in an encoding and without one.
func (s *stack) encodings(encoding string, paths ...string) (sides []side) {
	for _, e := range []string{encoding, "identity"} {
		sides = append(sides, side{load.Target{
			Address: s.address["gateway"], Paths: paths, Keys: s.keys, Header: []string{"Accept-Encoding: " + e}, Status: 200,
		}, []*process{s.processes["gateway"], s.processes["catalog"]}})
	}
	return sides
}

// firstWalks requests each page once from a catalog that has just started, n times.
func (s *stack) firstWalks(ctx context.Context, n int, encoding string, pages []string) ([]figures, error) {
	all := make([]figures, 2)
	for range n {
		if _, err := s.restartCatalog(ctx); err != nil {
			return nil, err
		}
		if err := s.ready(ctx); err != nil {
			return nil, err
		}
		if err := round(all, s.encodings(encoding, pages...), saturated(len(pages))); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func encodingRows(what, aim string, f []figures, failed error) []report.Row {
	if failed != nil {
		return []report.Row{{What: what, Failed: failed}}
	}
	return []report.Row{
		{What: what, Unit: "µs of CPU per call, gateway and catalog", Ours: f[0].cpu, Baseline: f[1].cpu, Aim: aim},
		{What: "the same", Unit: "calls/s", Ours: f[0].rate, Baseline: f[1].rate},
		{What: "the same", Unit: "bytes of a body", Ours: f[0].bytes, Baseline: f[1].bytes},
	}
}

// atCatalog returns a call of the catalog as the gateway makes it.
func (s *stack) atCatalog(path string) load.Target {
	return load.Target{Address: s.address["catalog"], Paths: []string{path}, Keys: []string{tokenOf(peer.Gateway)},
		Header: []string{api.CallerHeader + ": " + s.header[api.CallerHeader]}, Status: 200}
}

// benchMemory restarts the catalog and compares its resident memory with its encoded records: after the load and a walk of all pages, which
// it keeps compressed, and after changes of as many records as change on a busy day, in twenty batches.
func (s *stack) benchMemory(ctx context.Context, n int, pages []string) ([]report.Row, error) {
	if _, err := s.restartCatalog(ctx); err != nil {
		return nil, err
	}
	if err := round(make([]figures, 2), s.encodings("gzip", pages...), saturated(len(pages))); err != nil {
		return nil, err
	}
	const mib = 1 << 20
	encoded, err := s.encoded(ctx)
	if err != nil {
		return nil, err
	}
	loaded, _, err := s.processes["catalog"].memory(ctx)
	if err != nil {
		return nil, err
	}
	rows := []report.Row{{What: fmt.Sprintf("resident memory of the catalog against %s encoded records, after the load", number(n)), Unit: "MiB",
		Ours: report.Series{float64(loaded) / mib}, Baseline: report.Series{encoded / mib}, Aim: "at most 1.6"}}
	for batch := range 20 {
		if _, err := s.changeVisible(ctx, batch*500, batch*500+500); err != nil {
			return nil, err
		}
	}
	changed, peak, err := s.processes["catalog"].memory(ctx)
	return append(rows,
		report.Row{What: "the same, after 10,000 changed records", Unit: "MiB", Ours: report.Series{float64(changed) / mib}, Baseline: report.Series{encoded / mib}, Aim: "at most 1.6"},
		report.Row{What: "the same, the most so far", Unit: "MiB", Ours: report.Series{float64(peak) / mib}, Baseline: report.Series{encoded / mib}}), err
}

// restartCatalog restarts the catalog and returns the time until it is ready.
func (s *stack) restartCatalog(ctx context.Context) (time.Duration, error) {
	s.processes["catalog"].stop()
	begun := time.Now()
	if err := s.serve("catalog"); err != nil {
		return 0, err
	}
	err := ready(ctx, "http://"+s.operations["catalog"]+"/readyz", 10*time.Minute, s.processes["catalog"])
	return time.Since(begun), err
}

// encoded returns the size of the encoded records of the catalog in bytes.
func (s *stack) encoded(ctx context.Context) (float64, error) {
	text, err := call(ctx, http.MethodGet, "http://"+s.operations["catalog"]+"/metrics", "", "")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "catalog_snapshot_bytes "); found {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("the catalog has no metric catalog_snapshot_bytes")
}

// changeVisible records a review of the listings from (inclusive) to (exclusive), and returns the time from the end of that until the API
// shows the last of them.
func (s *stack) changeVisible(ctx context.Context, from, to int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	at := time.Now().UTC().Add(time.Duration(from) * time.Second).Truncate(time.Second) // reviews are dated a second apart, back from here
	reviewed := at.Add(-time.Duration(to) * time.Second).Format(time.RFC3339)
	if _, err := s.appendReviews(ctx, from, to, at); err != nil {
		return 0, err
	}
	begun := time.Now()
	for {
		body, err := s.get(ctx, "/api/v1/opportunities/"+recordID(to-1))
		if err == nil && bytes.Contains(body, []byte(`"lastCheckedAt":"`+reviewed+`"`)) {
			return time.Since(begun), nil
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("the review of %s at %s does not show: %w", recordID(to-1), reviewed, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// records is the pgx baseline with the records of a stack.
type records struct {
	address string
	process *process
}

// newRecords copies the catalog's n records into a table and starts the baseline on it.
func newRecords(ctx context.Context, s *stack, n int) (*records, error) {
	r := &records{}
	url, err := newDatabase(ctx, s.server, "records")
	if err != nil {
		return r, err
	}
	db, err := pgx.Connect(ctx, url)
	if err != nil {
		return r, err
	}
	defer db.Close(ctx) //nolint:errcheck // the errors of statements count
	if _, err := db.Exec(ctx, "CREATE TABLE records (id text PRIMARY KEY, position bigint UNIQUE, body text)"); err != nil {
		return r, err
	}
	for page := 1; page <= (n+99)/100; page++ {
		body, err := s.get(ctx, listPath+"&page="+strconv.Itoa(page))
		if err != nil {
			return r, err
		}
		var list struct{ Data []json.RawMessage }
		if err := json.Unmarshal(body, &list); err != nil {
			return r, err
		}
		var table [][]any
		for i, record := range list.Data {
			var id struct{ ID string }
			if err := json.Unmarshal(record, &id); err != nil {
				return r, err
			}
			table = append(table, []any{id.ID, page*100 + i, string(record)})
		}
		if _, err := db.CopyFrom(ctx, pgx.Identifier{"records"}, []string{"id", "position", "body"}, pgx.CopyFromRows(table)); err != nil {
			return r, err
		}
	}
	if _, err := db.Exec(ctx, "VACUUM ANALYZE records"); err != nil {
		return r, err
	}
	if r.address, err = freeAddress(); err != nil {
		return r, err
	}
	if r.process, err = start(s.dir, "pgx", nil, filepath.Join(s.bin, "baseline"), "record", "-listen", r.address, "-database", url); err != nil {
		return r, err
	}
	return r, ready(ctx, "http://"+r.address+"/list", time.Minute, r.process)
}

func (r *records) close() {
	if r.process != nil {
		r.process.stop()
	}
}

func (r *records) record(id string) load.Target {
	return load.Target{Address: r.address, Paths: []string{"/record/" + id}, Keys: []string{""}, Status: 200}
}

func (r *records) list() load.Target {
	return load.Target{Address: r.address, Paths: []string{"/list"}, Keys: []string{""}, Status: 200}
}
