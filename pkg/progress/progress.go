// Package progress shows a progress bar for long operations if the output is a terminal.
package progress

import (
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// delay is the time before a bar appears.
const delay = 500 * time.Millisecond

// Bar is a progress bar: one line on a terminal, removed at the end. A nil Bar shows nothing.
type Bar struct {
	out   io.Writer
	what  string
	bytes bool

	mu    sync.Mutex
	from  time.Time // when the bar may appear
	ended bool
	line  *progressbar.ProgressBar
	total int64 // of line
}

// New returns a bar on out that counts items, or nil if out is not a terminal.
func New(out io.Writer, what string) *Bar {
	if file, ok := out.(*os.File); !ok || !term.IsTerminal(int(file.Fd())) { //nolint:gosec // a descriptor is small
		return nil
	}
	return start(out, what, time.Now().Add(delay))
}

func start(out io.Writer, what string, from time.Time) *Bar {
	return &Bar{out: out, what: what, from: from}
}

// Set sets the progress to done of total. A total below 1 is unknown.
func (b *Bar) Set(done, total int64) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.set(done, total)
}

func (b *Bar) set(done, total int64) {
	if b.ended || time.Now().Before(b.from) {
		return
	}
	if b.line != nil && b.total != total {
		b.clear()
	}
	if b.line == nil {
		options := []progressbar.Option{
			progressbar.OptionSetWriter(b.out), progressbar.OptionSetDescription(b.what), progressbar.OptionSetWidth(30),
			progressbar.OptionThrottle(100 * time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionShowBytes(b.bytes),
		}
		if b.bytes || total > 0 {
			options = append(options, progressbar.OptionShowCount())
		}
		most := total
		if total < 1 {
			most = -1
		}
		b.line, b.total = progressbar.NewOptions64(most, options...), total
		_ = b.line.RenderBlank() // ignore errors of the terminal
	}
	if total > 0 {
		done = min(done, total)
	}
	_ = b.line.Set64(done)
}

// Done removes the bar from the terminal.
func (b *Bar) Done() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clear()
	b.ended = true
}

func (b *Bar) clear() {
	if b.line != nil {
		_ = b.line.Finish()
		b.line = nil
	}
}

// Upload returns a reader of r that shows the number of bytes read, of size, and at the end that it waits for the response. A size below 1
// is unknown.
func (b *Bar) Upload(r io.Reader, size int64) io.Reader {
	if b == nil {
		return r
	}
	b.bytes = true
	return &upload{r: r, bar: b, size: size}
}

type upload struct {
	r          io.Reader
	bar        *Bar
	sent, size int64
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.r.Read(p)
	u.sent += int64(n)
	u.bar.mu.Lock()
	defer u.bar.mu.Unlock()
	if err == nil {
		u.bar.set(u.sent, u.size)
		return n, err
	}
	u.bar.clear()
	u.bar.what, u.bar.bytes = "waiting for the service", false
	u.bar.set(0, 0)
	time.AfterFunc(time.Until(u.bar.from), func() { u.bar.Set(0, 0) }) // no further Read would show it
	return n, err
}
