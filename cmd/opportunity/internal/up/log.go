package up

import (
	"bytes"
	"io"
)

// logs takes the log lines of all services: every line to the file, warnings and worse to the terminal too.
type logs struct {
	file, terminal io.Writer
}

// Write takes one whole line, as the services' loggers write them.
func (l logs) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(`"level":"WARN"`)) || bytes.Contains(line, []byte(`"level":"ERROR"`)) {
		_, _ = l.terminal.Write(line)
	}
	return l.file.Write(line)
}
