package authn

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

// Each sync is reported. The log has the first failure and the recovery.
func TestSyncsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		results := []error{errors.New("first"), errors.New("second"), errors.New("third"), nil, nil, errors.New("fourth")}
		pulls := 0
		s := newKeySet(func(context.Context, api.KeyPosition) (api.KeyDigests, error) {
			pulls++
			return api.KeyDigests{}, results[min(pulls, len(results))-1]
		})
		var log bytes.Buffer
		var reported []error
		ctx, stop := context.WithTimeout(t.Context(), 6*(syncEvery+syncPause)-time.Millisecond) // before the seventh sync
		defer stop()
		s.run(ctx, slog.New(slog.NewTextHandler(&log, nil)), func(err error) { reported = append(reported, err) })
		require.Equal(t, results, reported, "one sync at once, then one after each interval")
		require.Equal(t, 2, strings.Count(log.String(), "key digest sync failing"), log.String())
		require.Equal(t, 1, strings.Count(log.String(), "key digest sync recovered"), log.String())
		require.Contains(t, log.String(), "error=first")
		require.NotContains(t, log.String(), "error=second")
	})
}

func TestKeysThatLeaveTheListAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := []string{"00000000000000aa", "00000000000000bb"}
		var listed atomic.Int64 // how many of them
		listed.Store(2)
		s := newKeySet(func(_ context.Context, after api.KeyPosition) (api.KeyDigests, error) { // pages of one key
			page := api.KeyDigests{After: after, Last: after}
			if i := after.Sequence; i < listed.Load() {
				page.Digests, page.Last = keys[i:i+1], api.KeyPosition{Sequence: i + 1, Digest: keys[i]}
				page.More = i+1 < listed.Load()
			}
			return page, nil
		})
		go s.run(t.Context(), slog.New(slog.DiscardHandler), func(error) {})
		synctest.Wait()
		require.Equal(t, 2, s.size())
		listed.Store(1)
		time.Sleep(readEvery - time.Second)
		require.Equal(t, 2, s.size())
		time.Sleep(syncEvery + 2*syncPause)
		require.Equal(t, 1, s.size())
	})
}

func TestKeysReadBeforeASyncFailsAreKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newKeySet(func(_ context.Context, after api.KeyPosition) (api.KeyDigests, error) {
			if after.Sequence > 0 {
				return api.KeyDigests{}, errors.New("second page")
			}
			time.Sleep(time.Millisecond)
			return api.KeyDigests{Digests: []string{"00000000000000aa"}, Last: api.KeyPosition{Sequence: 1}, More: true}, nil
		})
		go s.run(t.Context(), slog.New(slog.DiscardHandler), func(error) {})
		found, err := s.has(t.Context(), []string{"00000000000000aa"})
		require.NoError(t, err)
		require.True(t, found)
		_, err = s.has(t.Context(), []string{"00000000000000bb"})
		require.ErrorIs(t, err, errNotSynced)
	})
}
