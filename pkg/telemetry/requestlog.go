package telemetry

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// Request lines are buffered for at most flushInterval, and up to flushSize bytes.
const (
	flushInterval = 100 * time.Millisecond
	flushSize     = 32 << 10
)

// lineWriter writes log lines. A line passed to Write is written at once, after those passed to
// Later.
type lineWriter struct {
	out   io.Writer
	delay bool // keep the lines passed to Later for a while, to write many at once

	mu    sync.Mutex
	lines []byte
	timer *time.Timer // nil until the first line of Later
}

// Write implements io.Writer.
func (w *lineWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.lines) == 0 {
		return w.out.Write(line)
	}
	w.lines = append(w.lines, line...)
	return len(line), w.flush()
}

// Later writes line within flushInterval. The process loses it if it is killed before that.
func (w *lineWriter) Later(line []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, line...)
	switch {
	case !w.delay || len(w.lines) >= flushSize:
		_ = w.flush()
	case len(w.lines) > len(line):
	case w.timer == nil:
		w.timer = time.AfterFunc(flushInterval, w.Flush)
	default:
		w.timer.Reset(flushInterval)
	}
}

// Flush writes all lines.
func (w *lineWriter) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.flush()
}

func (w *lineWriter) flush() error {
	if len(w.lines) == 0 {
		return nil
	}
	_, err := w.out.Write(w.lines)
	w.lines = w.lines[:0]
	return err
}

// later is the writer of the lines that Later keeps.
type later struct{ *lineWriter }

func (w later) Write(line []byte) (int, error) {
	w.Later(line)
	return len(line), nil
}

// logRequest writes the log line of a request. A line about an error of the service is written at
// once.
func (t *Telemetry) logRequest(ctx context.Context, level slog.Level, o *observed, method string, status int,
	took time.Duration) {
	log := t.requestLog
	if status >= http.StatusInternalServerError {
		log = t.Log
	}
	log.LogAttrs(ctx, level, "request", slog.String("method", method), slog.String("route", o.route),
		slog.Int("status", status), slog.Int64("bytes", o.bytes), slog.Duration("took", took))
}
