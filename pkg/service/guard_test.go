package service

import (
	"context"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
)

// A restored history that signs before a gateway has reported could sign a number again.
func TestNothingIsSignedBeforeAReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, calls := &Guard{reported: make(chan struct{})}, 0
		sign := g.AfterReport(func(context.Context) error { calls++; return nil })
		go func() { _ = sign(t.Context()) }()
		synctest.Wait()
		require.Zero(t, calls)
		g.once.Do(func() { close(g.reported) })
		synctest.Wait()
		require.Equal(t, 1, calls)
	})
}

func TestNothingWaitsTwiceForAReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, start := &Guard{reported: make(chan struct{})}, time.Now()
		sign := g.AfterReport(func(context.Context) error { return nil })
		require.NoError(t, sign(t.Context()))
		require.NoError(t, sign(t.Context()))
		require.Equal(t, reportWait, time.Since(start))
	})
}

// A loop reads the set-backs before a pull finds one, and is done after it.
func TestSetBackFoundDuringARefreshStops(t *testing.T) {
	cfg := database.Config{URL: storetest.SQLite(t), MaxConnections: 2}
	tel, err := telemetry.Start(t.Context(), "test", telemetry.Config{LogOutput: t.Output()})
	require.NoError(t, err)
	require.NoError(t, database.Migrate(t.Context(), cfg, tel, fstest.MapFS{"sqlite/00001_set_backs.sql": {Data: []byte(`-- +goose Up
CREATE TABLE set_backs (kind text, number bigint, id text, note text, found_at bigint, generation bigint, accepted_at bigint, accepted_by text,
PRIMARY KEY (kind, number, id));`)}}))
	db, err := database.Open(cfg, tel)
	require.NoError(t, err)
	defer db.Close()
	g := &Guard{r: &Runtime{Telemetry: tel, DB: db, Now: time.Now}, has: func(context.Context, database.SetBack) (bool, error) { return false, nil }}

	type paused struct{}
	read, resume, done := make(chan struct{}), make(chan struct{}), make(chan error)
	require.NoError(t, db.Callback().Query().After("gorm:query").Register("pause", func(tx *gorm.DB) {
		if tx.Statement.Context.Value(paused{}) != nil {
			close(read)
			<-resume
		}
	}))
	go func() { done <- g.refresh(context.WithValue(t.Context(), paused{}, true)) }()
	<-read
	_, err = g.Verify(t.Context(), api.FeedMark{Sequence: 7, ID: "a"})
	require.ErrorIs(t, err, ErrSetBack)
	close(resume)
	require.NoError(t, <-done)
	require.ErrorIs(t, g.Err(), ErrSetBack)

	_, err = db.AcceptSetBacks(t.Context(), time.Now(), "ann")
	require.NoError(t, err)
	require.NoError(t, g.refresh(t.Context()))
	require.NoError(t, g.Err())
}
