package up

import (
	"bytes"
	"io"
)

// logs writes the log lines of all services to a file, and warnings and errors to the terminal too.
type logs struct {
	file, terminal io.Writer
}

// Write writes one log line. The services' loggers call it once for each line.
func (l logs) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(`"level":"WARN"`)) || bytes.Contains(line, []byte(`"level":"ERROR"`)) {
		_, _ = l.terminal.Write(line)
	}
	return l.file.Write(line)
}
