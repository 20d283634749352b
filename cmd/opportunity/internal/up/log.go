package up

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
)

// maxLog is the size at which the log continues in a new file, in bytes. The one before is kept.
const maxLog = 64 << 20

// logs writes the log lines of all services to a file, and warnings and errors to the terminal too.
// At maxLog it renames the file to path.1.
type logs struct {
	path     string
	terminal io.Writer

	mu   sync.Mutex
	file *os.File
	size int64
}

func openLogs(path string, terminal io.Writer) (*logs, error) {
	l := &logs{path: path, terminal: terminal}
	return l, l.open()
}

func (l *logs) open() error {
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	l.file, l.size = file, info.Size()
	return nil
}

// Write writes one log line. The services' loggers call it once for each line.
func (l *logs) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if bytes.Contains(line, []byte(`"level":"WARN"`)) || bytes.Contains(line, []byte(`"level":"ERROR"`)) {
		_, _ = l.terminal.Write(line)
	}
	if l.size+int64(len(line)) > maxLog {
		old := l.file
		if err := errors.Join(os.Rename(l.path, l.path+".1"), l.open()); err == nil {
			_ = old.Close()
		} // otherwise it continues in the file that it has
	}
	n, err := l.file.Write(line)
	l.size += int64(n)
	return n, err
}

// Close closes the file.
func (l *logs) Close() error { return l.file.Close() }
