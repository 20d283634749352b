package up

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPaymentsAreComparedDaily(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		started, ended := time.Now(), make(chan error)
		var at []time.Duration
		go func() {
			ended <- comparePayments(ctx, func(context.Context) error {
				at = append(at, time.Since(started))
				return errors.New("processor unavailable")
			})
		}()
		time.Sleep(49 * time.Hour)
		stop()
		require.NoError(t, <-ended)
		require.Equal(t, []time.Duration{time.Minute, 24*time.Hour + time.Minute, 48*time.Hour + time.Minute}, at)
	})
}
