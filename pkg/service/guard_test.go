package service

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
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
