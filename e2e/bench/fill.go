package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// filled returns a stack with n reviewed records. It starts one unless the last was of the same size; only one runs at a time.
func (b *bench) filled(ctx context.Context, n int) (s *stack, err error) {
	if b.stack != nil && b.records == n {
		return b.stack, nil
	}
	b.close()
	b.records = n
	if b.stack, err = newStack(ctx, b.bin, b.dir); err == nil {
		err = b.stack.fill(ctx, n, b.now)
	}
	if err != nil {
		b.close()
	}
	return b.stack, err
}

// fill imports n listings with a review each, and waits until the API lists them.
func (s *stack) fill(ctx context.Context, n int, now time.Time) (err error) {
	if s.imported, err = s.importListings(ctx, 0, n, now); err != nil {
		return err
	}
	if s.appended, err = s.appendReviews(ctx, 0, n, now); err != nil {
		return err
	}
	return s.shows(ctx, n)
}

// perFile is the number of records in one file of an import, which may have 64 MiB.
const perFile = 20_000

// importListings imports the listings from (inclusive) to (exclusive), and returns how long that took.
func (s *stack) importListings(ctx context.Context, from, to int, now time.Time) (time.Duration, error) {
	return s.send(ctx, from, to, now, writeListings, "listings", "import", "--yes")
}

// appendReviews records a review of each listing, and returns how long that took.
func (s *stack) appendReviews(ctx context.Context, from, to int, now time.Time) (time.Duration, error) {
	return s.send(ctx, from, to, now, writeReviews, "events", "append")
}

// send writes files and passes each to a verb of the operator. Only the verbs are timed.
func (s *stack) send(ctx context.Context, from, to int, now time.Time, write func(io.Writer, int, int, time.Time) error, verb ...string) (spent time.Duration, err error) {
	file := filepath.Join(s.dir, "import.jsonl")
	defer os.Remove(file) //nolint:errcheck // in a temporary folder
	for at := from; at < to; at += perFile {
		out, err := os.Create(file)
		if err != nil {
			return 0, err
		}
		if err := write(out, at, min(at+perFile, to), now); err != nil {
			return 0, err
		}
		if err := out.Close(); err != nil {
			return 0, err
		}
		begun := time.Now()
		if _, err := s.operator(ctx, append(verb, file)...); err != nil {
			return 0, err
		}
		spent += time.Since(begun)
	}
	return spent, nil
}

// shows waits until the API lists n reviewed records.
func (s *stack) shows(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	for {
		var list struct{ Pagination struct{ Total int } }
		body, err := s.get(ctx, "/api/v1/opportunities?limit=1&checked_after=2000-01-01")
		if err == nil {
			err = json.Unmarshal(body, &list)
		}
		if err == nil && list.Pagination.Total == n {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the API lists %d of %d reviewed records: %w", list.Pagination.Total, n, cmp.Or(err, ctx.Err()))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// get returns the body of a response of the gateway.
func (s *stack) get(ctx context.Context, path string) ([]byte, error) {
	return call(ctx, http.MethodGet, "http://"+s.address["gateway"]+path, s.keys[0], "")
}

// call makes a request and returns the body of the response. A status other than 200 and 201 is an error.
func call(ctx context.Context, method, url, token, body string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: status %d: %s", method, url, resp.StatusCode, reply)
	}
	return reply, err
}

func split(address string) (host, port string) {
	host, port, _ = net.SplitHostPort(address)
	return host, port
}
