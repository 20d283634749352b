package up

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
)

func TestLogContinuesInNewFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.jsonl")
	require.NoError(t, os.WriteFile(path, []byte("first\n"), 0o600))
	require.NoError(t, os.Truncate(path, maxLog-10)) // a sparse file
	terminal := new(bytes.Buffer)
	l := storetest.Must(openLogs(path, terminal))(t)
	defer l.Close()
	for _, line := range []string{"12345678\n", `{"level":"WARN"}` + "\n", "third\n"} {
		storetest.Must(l.Write([]byte(line)))(t)
	}
	got := storetest.Must(os.ReadFile(path))(t)
	require.Equal(t, `{"level":"WARN"}`+"\nthird\n", string(got))
	require.Equal(t, `{"level":"WARN"}`+"\n", terminal.String())
	old := storetest.Must(os.Stat(path + ".1"))(t)
	require.Equal(t, int64(maxLog-10+len("12345678\n")), old.Size())

	// A log that cannot be renamed grows, and loses no line.
	require.NoError(t, os.Remove(path+".1"))
	require.NoError(t, os.Mkdir(path+".1", 0o700))
	l.size = maxLog
	storetest.Must(l.Write([]byte("fourth\n")))(t)
	got = storetest.Must(os.ReadFile(path))(t)
	require.True(t, strings.HasSuffix(string(got), "third\nfourth\n"), string(got))
}
