package telemetry

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

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
