package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"opportunity.internal/e2e/load"
	"opportunity.internal/pkg/api"
)

// BenchmarkStrangers measures a list of a paying client alone, and beside 32 clients without a key
// that repeat one request without a pause.
func BenchmarkStrangers(b *testing.B) {
	write := section(b, "benchmarks.md", "strangers")
	s := newBenchmark(b, 1000)
	event := read[api.EventList](b, s.url, s.paying[0], benchRecord+"/history").Data[0]
	paying := callsAt(s.address("gateway"), s.paying, nil, "/api/v1/opportunities?limit=50")
	paying.Connections, paying.Count = 1, 500
	var rows []row
	for _, asked := range []load.Path{
		{Name: "tools/call at /mcp with 60 KB", Path: "/mcp",
			Body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` +
				`{"name":"search_opportunities","arguments":{"q":"` + strings.Repeat("a", 60_000) + `"}}}`},
		{Name: "/docs/search", Path: "/docs/search?q=how+is+my+daily+limit+computed"},
		{Name: "/records/{id}", Path: "/records/" + recordID(0)},
		{Name: "/log/proof/{id}", Path: "/.well-known/opportunity-history/log/proof/" + event.ID},
	} {
		crowd := load.Load{Address: paying.Address, Keys: []string{""}, Connections: 32, Paths: []load.Path{asked}}
		var alone, beside series
		for range 7 {
			alone = append(alone, paying.run(b).Quantile(0.5).Seconds()*1000)
			ctx, cancel := context.WithCancel(b.Context())
			done := make(chan *load.Result)
			go func() { done <- crowd.Run(ctx) }()
			beside = append(beside, paying.run(b).Quantile(0.5).Seconds()*1000)
			cancel()
			<-done
		}
		what := fmt.Sprintf("a list of 50 beside 32 clients at %s against alone: 50th percentile", asked.Name)
		rows = append(rows, row{what, "ms", beside, alone, "at most 5"})
	}
	write(table(rows))
}
