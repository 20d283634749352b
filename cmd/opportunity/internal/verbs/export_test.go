package verbs

import (
	"io"
	"testing"
)

// AtTerminal makes commands take their input for a terminal until the test ends.
func AtTerminal(t *testing.T) {
	before := terminal
	terminal = func(io.Reader) bool { return true }
	t.Cleanup(func() { terminal = before })
}
