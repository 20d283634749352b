package authquota

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/redis/go-redis/v9"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/highwater"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/service"
	"opportunity.internal/services/authquota/internal/dbtx"
	"opportunity.internal/services/authquota/internal/journal"
)

// marks compares the database with the newest change that is known outside it: in Redis, in this process's journal, and to the gateways. It
// does so on each request, because a revoked key must not work even once after a failover.
type marks struct {
	guard *highwater.Guard
	redis highwater.Redis
	db    *dbtx.DB
	log   *slog.Logger
}

func newMarks(cfg Config, r *service.Runtime, client *redis.Client, db *dbtx.DB) (*marks, error) {
	key, err := highwater.NewKey(peer.Authquota, cfg.Encryption...)
	if err != nil {
		return nil, err
	}
	last, err := openJournal(cfg, r.Log, db)
	if err != nil {
		return nil, err
	}
	m := &marks{redis: highwater.Redis{Store: peer.Authquota, Client: client}, db: db, log: r.Log}
	db.Committed = m.committed
	m.guard = r.Guard(highwater.Owner{
		Store: peer.Authquota, Key: key, Has: db.HasChange, Newest: db.NewestChange, Keeps: []highwater.Row{{Store: peer.Billing, DB: r.DB}},
		Always: func(ctx context.Context) ([]string, error) {
			known, err := m.redis.Marks(ctx)
			l := last()
			return append(known, key.Encode(highwater.Mark{Change: api.Change{Sequence: l.Sequence, ID: l.ID}})), err
		},
	}, m.redis)
	return m, nil
}

// openJournal sets the journal of db. last returns the newest line that can be read again, or the zero Line.
func openJournal(cfg Config, log *slog.Logger, db *dbtx.DB) (last func() journal.Line, err error) {
	if cfg.JournalFile == "" {
		log.Warn("journal on standard output: OPPORTUNITY_JOURNAL_FILE is not set, so a restore of database, Redis and history together is not noticed")
		db.Journal = journal.NewStream(cmp.Or[io.Writer](cfg.JournalOutput, os.Stdout))
		return func() journal.Line { return journal.Line{} }, nil
	}
	ignored := 0
	file, err := journal.OpenFile(cfg.JournalFile, func(l journal.Line) bool {
		_, err := db.Open(l)
		if err != nil {
			ignored++
		}
		return err == nil
	})
	if err != nil {
		return nil, fmt.Errorf("OPPORTUNITY_JOURNAL_FILE: %w", err)
	}
	if ignored > 0 {
		log.Warn("journal lines ignored: forged, or sealed under an encryption key that is not configured", "lines", ignored)
	}
	db.Journal = file
	return file.Last, nil
}

// committed gives Redis the mark of a change.
func (m *marks) committed(ctx context.Context, change api.Change) {
	m.guard.Made(highwater.Mark{Change: change})
	if err := m.guard.Exchange(ctx, m.redis); err != nil && !errors.Is(err, highwater.ErrSetBack) {
		m.log.WarnContext(ctx, "newest change not reported to Redis", "sequence", change.Sequence, "error", err.Error())
	}
}
