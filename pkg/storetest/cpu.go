package storetest

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ticksPerSecond = 100 // unit of times in /proc

// ServerCPU returns the CPU time of the Postgres server of the URL so far, with that of its ended
// processes. It is 0 for SQLite. It works on Linux.
func ServerCPU(b testing.TB, url string) time.Duration {
	b.Helper()
	if !strings.HasPrefix(url, "postgres") {
		return 0
	}
	var dir string
	db, err := sql.Open("pgx", url)
	require.NoError(b, err)
	defer db.Close()
	require.NoError(b, db.QueryRowContext(context.Background(), "SHOW data_directory").Scan(&dir))
	pid, err := os.ReadFile(dir + "/postmaster.pid")
	require.NoError(b, err)
	postmaster, _, _ := strings.Cut(string(pid), "\n")
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(b, err)
	ticks := 0
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the process ended
		}
		id, rest, _ := strings.Cut(string(text), " ")
		fields := strings.Fields(rest[strings.LastIndex(rest, ")")+1:])
		if parent := fields[1]; id != postmaster && parent != postmaster {
			continue
		}
		for i, field := range fields[11:15] { // utime, stime, and those of ended children
			n, err := strconv.Atoi(field)
			require.NoError(b, err)
			if i < 2 || id == postmaster {
				ticks += n
			}
		}
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond
}
