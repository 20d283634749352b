package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
)

func TestRequestLineIsThatOfTheLogger(t *testing.T) {
	traced := trace.ContextWithSpanContext(t.Context(),
		trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}}))
	for _, ctx := range []context.Context{t.Context(), traced} {
		var out bytes.Buffer
		tel, err := Start(t.Context(), "test", Config{LogOutput: &out})
		require.NoError(t, err)
		o := &observed{id: "req-12345678", route: "/things/{id}", recorder: recorder{bytes: 7}}
		ctx = context.WithValue(ctx, observedKey{}, o)
		tel.logRequest(ctx, slog.LevelInfo, o, "GET", 404, 1500*time.Millisecond)
		tel.Log.LogAttrs(ctx, slog.LevelInfo, "request", slog.String("method", "GET"), slog.String("route", o.route),
			slog.Int("status", 404), slog.Int64("bytes", 7), slog.Duration("took", 1500*time.Millisecond))
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		require.Len(t, lines, 2)
		var at struct{ Time time.Time }
		for i, line := range lines {
			require.NoError(t, json.Unmarshal([]byte(line), &at))
			_, lines[i], _ = strings.Cut(line, `,"level"`)
		}
		require.Equal(t, lines[1], lines[0])
	}
}

// writes records the text of each Write.
type writes struct {
	mu  sync.Mutex
	all []string
}

func (w *writes) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, string(b))
	return len(b), errors.New("disk full")
}

func (w *writes) texts() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all)
}

func TestLinesAreWrittenInOrderAndInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := new(writes)
		w := &lineWriter{out: out, delay: true}
		later := func(lines ...string) {
			for _, line := range lines {
				w.Later([]byte(line))
			}
		}
		later("1", "2")
		require.Empty(t, out.texts())
		time.Sleep(flushInterval)
		synctest.Wait()
		require.Equal(t, []string{"12"}, out.texts())

		later("3")
		n, err := w.Write([]byte("error"))
		require.Equal(t, 5, n)
		require.Error(t, err)
		_, _ = w.Write([]byte("error"))
		require.Equal(t, []string{"12", "3error", "error"}, out.texts())

		later("4")
		w.Flush()
		w.Flush()
		long := strings.Repeat("5", flushSize)
		later(long)
		require.Equal(t, []string{"12", "3error", "error", "4", long}, out.texts())
		time.Sleep(flushInterval)
		later("6")
		time.Sleep(flushInterval)
		synctest.Wait()
		require.Equal(t, "6", out.texts()[5])
	})
}
