package authquota

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/routetest"
	"opportunity.internal/pkg/service/servicetest"
)

func TestOnlyTheFirstRequestWaitsForADatabaseThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := true
		r := &responsiveness{ping: func(ctx context.Context) error {
			if hangs {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}}
		took := func() time.Duration {
			began := time.Now()
			require.Equal(t, problem.ServiceUnavailable, problem.Of(r.check(t.Context())).Code)
			return time.Since(began)
		}
		require.Equal(t, responseTimeout, took())
		for range 5 {
			require.Zero(t, took())
			require.NoError(t, r.recheck(t.Context()))
		}
		require.Zero(t, took())
		hangs = false
		require.NoError(t, r.recheck(t.Context()))
		require.NoError(t, r.check(t.Context()))
	})
}

// An error of the database, or a client that disconnects, does not show that the database hangs.
func TestOtherErrorsDoNotRejectTheNextRequest(t *testing.T) {
	r := &responsiveness{ping: func(ctx context.Context) error { return errors.Join(errors.New("a bug"), ctx.Err()) }}
	require.Error(t, r.check(t.Context()))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, r.check(ended))
	r.ping = func(context.Context) error { return nil }
	require.NoError(t, r.check(t.Context()))
}

func TestRoutesHaveRules(t *testing.T) {
	errors := problem.Writer{Log: slog.New(slog.DiscardHandler)}
	cfg, p := Config{PublicURL: servicetest.PublicURL}, &parts{}
	api, ok := newAPI(cfg, settings{}, p, errors, http.NotFoundHandler()).(*gin.Engine)
	require.True(t, ok)
	account, err := newPages(cfg, settings{}, p, errors)
	require.NoError(t, err)
	pages, ok := account.Handler().(*gin.Engine)
	require.True(t, ok)
	routetest.RequireRules(t, peer.Authquota, append(api.Routes(), pages.Routes()...), ":key") // all begin with key_
}
