package progress

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
)

// screen is a terminal, safe for concurrent use.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// line returns the text of the last line.
func (s *screen) line() string {
	text := strings.TrimRight(s.String(), "\r")
	return strings.TrimSpace(text[strings.LastIndex(text, "\r")+1:])
}

func TestNoBarOutsideTerminal(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/log")
	require.NoError(t, err)
	defer file.Close()
	for _, out := range []io.Writer{file, new(bytes.Buffer)} {
		bar := New(out, "importing")
		require.Nil(t, bar)
		bar.Set(1, 2)
		in := strings.NewReader("x")
		require.Same(t, in, bar.Upload(in, 1), "must return the reader itself")
		bar.Done()
	}
	info, err := file.Stat()
	require.NoError(t, err)
	require.Zero(t, info.Size())
}

func TestBarIsShownAndRemoved(t *testing.T) {
	out := new(screen)
	bar := start(out, "verifying events", time.Now())
	bar.Set(0, 400)
	bar.Set(100, 400)
	require.Contains(t, out.String(), "verifying events")
	require.Contains(t, out.String(), "/400")
	bar.Done()
	require.Empty(t, out.line())
	shown := out.String()
	bar.Set(200, 400)
	require.Equal(t, shown, out.String(), "no output after Done")
}

func TestQuickWorkShowsNothing(t *testing.T) {
	out := new(screen)
	bar := start(out, "verifying events", time.Now().Add(time.Hour))
	bar.Set(100, 400)
	bar.Done()
	require.Empty(t, out.String())
}

func TestUploadShowsBytesThenWaits(t *testing.T) {
	out := new(screen)
	bar := start(out, "sending", time.Now())
	in := bar.Upload(io.MultiReader(strings.NewReader(strings.Repeat("x", 3000)), strings.NewReader("y")), 3001)
	_, err := in.Read(make([]byte, 3000))
	require.NoError(t, err)
	require.Contains(t, out.String(), "sending")
	require.Contains(t, out.String(), "kB")
	rest, err := io.ReadAll(in)
	require.NoError(t, err)
	require.Equal(t, "y", string(rest))
	storetest.Eventually(t, "the wait is shown", func() bool { return strings.Contains(out.line(), "waiting for the service") })
	bar.Done()
	require.Empty(t, out.line())

	broken := errors.New("broken")
	_, err = start(out, "sending", time.Now()).Upload(failing{broken}, 5).Read(nil)
	require.ErrorIs(t, err, broken)
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
