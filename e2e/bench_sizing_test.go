package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// BenchmarkSizing measures the memory, the start and the database of each service that a read needs
// with 60,000 and 600,000 reviewed records. GOMEMLIMIT is not set, so memory is what a service
// takes if it has enough.
func BenchmarkSizing(b *testing.B) {
	write := section(b, "operations.md", "sizing")
	var out strings.Builder
	out.WriteString("| Records | Service | Memory after a start | most at a start | most under load | most at import and reviews " +
		"| Ready after | Database |\n|---|---|---|---|---|---|---|---|\n")
	for _, n := range []int{60_000, 600_000} {
		b.Run(number(float64(n)), func(b *testing.B) {
			s := newBenchmark(b, n)
			paths := []string{"/docs", "/account/sign-in"}
			for page := range n / 100 {
				paths = append(paths, fmt.Sprintf("%s&page=%d", listOf100, page+1),
					"/api/v1/opportunities/"+recordID(page*100)+"/history")
			}
			reads := callsAt(s.address("gateway"), s.paying, nil, paths...)
			reads.Count = 2 * len(paths)
			for _, name := range []string{"gateway", "catalog", "history", "authquota"} {
				_, filling := s.memory(name)
				took := s.restarted(name)
				idle, start := s.memory(name)
				reads.run(b)
				_, loaded := s.memory(name)
				fmt.Fprintf(&out, "| %s | %s | %s MiB | %s MiB | %s MiB | %s MiB | %s s | %s |\n", number(float64(n)), name,
					number(idle), number(start), number(loaded), number(filling), number(took.Seconds()), s.databaseSize(name))
			}
		})
	}
	if !b.Failed() {
		write(out.String())
	}
}

// databaseSize returns the size of the database of a service, or nothing for the gateway.
func (s *benchmark) databaseSize(name string) string {
	if name == "gateway" {
		return ""
	}
	db, err := pgx.Connect(s.Context(), s.databases[name])
	require.NoError(s, err)
	defer db.Close(s.Context())
	var size float64
	require.NoError(s, db.QueryRow(s.Context(), "SELECT pg_database_size(current_database())").Scan(&size))
	return number(size/mib) + " MiB"
}
