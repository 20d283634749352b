package telemetry

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
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

// logRequest writes the log line of a request: the one that t.Log would write, for a third of its
// CPU time. All of its text is safe in JSON without quoting: routes are constants, and request ids
// are validated.
func (t *Telemetry) logRequest(ctx context.Context, level slog.Level, o *observed, method string, status int,
	took time.Duration) {
	space := lineBuffers.Get().(*[]byte)
	line := append((*space)[:0], `{"time":"`...)
	line = time.Now().AppendFormat(line, time.RFC3339Nano)
	line = append(append(line, `","level":"`...), level.String()...)
	line = append(append(line, `","msg":"request","service":"`...), t.service...)
	line = append(append(line, `","method":"`...), method...)
	line = append(append(line, `","route":"`...), o.route...)
	line = strconv.AppendInt(append(line, `","status":`...), int64(status), 10)
	line = strconv.AppendInt(append(line, `,"bytes":`...), o.bytes, 10)
	line = strconv.AppendInt(append(line, `,"took":`...), int64(took), 10)
	line = append(append(append(line, `,"request_id":"`...), o.id...), '"')
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		line = append(append(line, `,"trace_id":"`...), sc.TraceID().String()...)
		line = append(append(append(line, `","span_id":"`...), sc.SpanID().String()...), '"')
	}
	line = append(line, "}\n"...)
	if status >= http.StatusInternalServerError {
		_, _ = t.lines.Write(line)
	} else {
		t.lines.Later(line)
	}
	*space = line
	lineBuffers.Put(space)
}

var lineBuffers = sync.Pool{New: func() any { return new([]byte) }}
