package up

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/service"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/history"
)

func TestJobIsRepeatedAfterFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		started, ended, wake := time.Now(), make(chan error), make(chan struct{})
		var at []time.Duration
		d := &deployment{log: slog.New(slog.DiscardHandler)}
		job := d.repeated(time.Minute, service.Loop{Interval: time.Hour, Wake: wake, Do: func(context.Context) error {
			at = append(at, time.Since(started))
			return errors.New("no space left on device")
		}})
		go func() { ended <- job.run(ctx) }()
		time.Sleep(90 * time.Minute)
		wake <- struct{}{}
		time.Sleep(61 * time.Minute)
		stop()
		require.NoError(t, <-ended)
		require.Equal(t, []time.Duration{time.Minute, 61 * time.Minute, 90 * time.Minute, 150 * time.Minute}, at)
	})
}

func TestLinksAreCheckedOnlyWithAPublicContactPage(t *testing.T) {
	for _, c := range []struct {
		links     bool
		url, want string
	}{
		{true, "http://localhost:8080", "OPPORTUNITY_PUBLIC_URL"}, {true, "https://data.opportunity.ca", ""},
		{false, "https://data.opportunity.ca", "OPPORTUNITY_LINK_CHECKS is false"},
	} {
		d := &deployment{links: c.links, history: history.Config{PublicURL: c.url}}
		require.Contains(t, d.linksOff(), c.want)
		require.Equal(t, c.want == "", d.linksOff() == "")
		require.Equal(t, c.want == "",
			slices.ContainsFunc(slices.Concat(d.stages()...), func(j job) bool { return j.name == "link checks" }))
	}
}

func TestInvalidSettingsAreReportedOnce(t *testing.T) {
	t.Setenv("OPPORTUNITY_LINK_CHECKS", "maybe")
	t.Setenv("OPPORTUNITY_LOG_LEVEL", "loud") // of all services
	err := Run(t.Context(), Options{Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0", DeskListen: "127.0.0.1:0",
		OperationsListen: "127.0.0.1:0", DataDir: t.TempDir()})
	require.EqualError(t, err, "OPPORTUNITY_LINK_CHECKS: use true or false\n"+
		"OPPORTUNITY_LOG_LEVEL: use DEBUG, INFO, WARN or ERROR")
}

func TestOperationsAddresses(t *testing.T) {
	got := storetest.Must(following("127.0.0.1:9180", 3))(t)
	require.Equal(t, []string{"127.0.0.1:9180", "127.0.0.1:9181", "127.0.0.1:9182"}, got)
	got = storetest.Must(following("[::1]:0", 2))(t)
	require.Equal(t, []string{"[::1]:0", "[::1]:0"}, got)
	for _, invalid := range []string{"9180", "127.0.0.1:x", "127.0.0.1:65534", "127.0.0.1:-1", ""} {
		require.ErrorContains(t, storetest.Err(following(invalid, 3)), "invalid --operations-listen")
	}
}
