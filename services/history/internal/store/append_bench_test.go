package store_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/eventfile"
	"opportunity.internal/pkg/storetest"
)

// BenchmarkAppend measures the append of a file of 100,000 reviews, one for each listing: reading,
// validating and recording them.
func BenchmarkAppend(b *testing.B) {
	const n = 100_000
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	file := new(bytes.Buffer)
	for i := range n {
		e := apitest.Verified(fmt.Sprintf("platform-%d", i), at.Add(time.Duration(i)*time.Millisecond))
		text, err := json.Marshal(e)
		require.NoError(b, err)
		file.Write(append(bytes.Replace(text, []byte(`"id":"",`), nil, 1), '\n'))
	}
	for dialect, newURL := range map[string]func(testing.TB) string{"postgres": schema.Postgres,
		"sqlite": schema.SQLite} {
		b.Run(dialect, func(b *testing.B) {
			var cpu, server time.Duration
			for b.Loop() {
				b.StopTimer()
				url := newURL(b)
				s := open(b, url)
				beforeServer := storetest.ServerCPU(b, url)
				b.StartTimer()
				before := processCPU(b)
				appended, _, err := s.Append(b.Context(), "bench", at.Add(time.Hour),
					func(add func(eventfile.Line) error) error {
						_, err := eventfile.Scan(bytes.NewReader(file.Bytes()), at.Add(time.Hour), api.MaxReported, add)
						return err
					})
				require.NoError(b, err)
				require.Equal(b, n, appended)
				cpu += processCPU(b) - before
				b.StopTimer()
				server += storetest.ServerCPU(b, url) - beforeServer
				b.StartTimer()
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/append")
			b.ReportMetric(cpu.Seconds()/float64(b.N), "cpu-s/append")
			b.ReportMetric(server.Seconds()/float64(b.N), "server-cpu-s/append")
		})
	}
}
