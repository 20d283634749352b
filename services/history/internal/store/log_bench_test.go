package store_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"filippo.io/torchwood"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/services/history/internal/checkpoint"
	"opportunity.internal/services/history/internal/event"
)

// BenchmarkLogOfAMillionEvents measures the proof of an event and the next checkpoint in a log of a
// million events. Only the events that it needs are stored.
func BenchmarkLogOfAMillionEvents(b *testing.B) {
	const n, proved = 1_000_000, 512_345
	record := func(sequence int64) event.Record {
		r, err := event.New(apitest.Verified(fmt.Sprintf("platform-%d", sequence), day0))
		require.NoError(b, err)
		r.Sequence, r.ID, r.Actor, r.RecordedAt = sequence, fmt.Sprintf("0198f000-0000-7000-8000-%012d", sequence),
			"bench", day0.UnixMicro()
		require.NoError(b, r.Attach(api.Evidence{}))
		return r
	}
	in := record(proved)
	var hashes []tlog.Hash
	read := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(indexes))
		for i, at := range indexes {
			out[i] = hashes[at]
		}
		return out, nil
	})
	for i := range int64(n) {
		leaf := fmt.Appendf(nil, "leaf %d", i)
		if i == proved-1 {
			leaf = in.Leaf()
		}
		added, err := tlog.StoredHashes(i, leaf, read)
		require.NoError(b, err)
		hashes = append(hashes, added...)
	}
	root, err := tlog.TreeHash(n, read)
	require.NoError(b, err)
	tiles := tlog.NewTiles(torchwood.TileHeight, 0, n)
	data := make([][]byte, len(tiles))
	for i, t := range tiles {
		data[i], err = tlog.ReadTileData(t, read)
		require.NoError(b, err)
	}
	for dialect, newURL := range map[string]func(testing.TB) string{"postgres": schema.Postgres,
		"sqlite": schema.SQLite} {
		b.Run(dialect, func(b *testing.B) {
			s := open(b, newURL(b))
			l, err := checkpoint.Config{SigningKeys: []string{seed}}.Log(s, "https://api.example")
			require.NoError(b, err)
			l.Now, l.Log, l.Store = time.Now, slog.New(slog.DiscardHandler), seen{s}
			c := checkpoint.Checkpoint{Checkpoint: torchwood.Checkpoint{Origin: logName,
				Tree: tlog.Tree{N: n, Hash: root}}, MadeAt: day0}
			c.Note, err = l.Keys.Sign(c.Checkpoint)
			require.NoError(b, err)
			saved, err := s.SaveCheckpoint(b.Context(), c, tiles, data)
			require.NoError(b, err)
			require.True(b, saved)
			b.Run("proof", func(b *testing.B) {
				size := 0
				for b.Loop() {
					published, err := l.Published(b.Context(), logName, 0)
					require.NoError(b, err)
					proof, err := l.Prove(b.Context(), published, in)
					require.NoError(b, err)
					size = len(proof)
				}
				b.ReportMetric(float64(size), "bytes")
			})
			b.Run("checkpoint", func(b *testing.B) {
				next := int64(n)
				for b.Loop() {
					next++
					require.NoError(b, s.InsertRecord(b.Context(), record(next)))
					require.NoError(b, l.Sign(b.Context()))
				}
			})
		})
	}
}
