package up

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/history"
)

func TestLinksAreCheckedHourly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		started, ended := time.Now(), make(chan error)
		var at []time.Duration
		go func() {
			ended <- checkLinks(ctx, new(bytes.Buffer), nil, func(context.Context) error {
				at = append(at, time.Since(started))
				return errors.New("link check failed")
			})
		}()
		time.Sleep(150 * time.Minute)
		stop()
		require.NoError(t, <-ended)
		require.Equal(t, []time.Duration{time.Minute, 61 * time.Minute, 121 * time.Minute}, at)
	})
}

func TestLinksAreNotCheckedWithoutContactPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		log, calls, ended := new(bytes.Buffer), 0, make(chan error)
		go func() {
			ended <- checkLinks(ctx, log, nil, func(ctx context.Context) error {
				calls++
				_, err := history.CheckLinks(ctx, history.Config{PublicURL: "http://localhost:8080"})
				return err
			})
		}()
		time.Sleep(5 * time.Hour)
		stop()
		require.NoError(t, <-ended)
		require.Equal(t, 1, calls)
		require.Contains(t, log.String(), "OPPORTUNITY_LINK_CHECK_CONTACT")
	})
}

func TestLinkChecksCanBeTurnedOff(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "1": true, "false": false, "0": false} {
		t.Setenv(linkChecksSetting, value)
		enabled, err := linkChecksEnabled()
		require.NoError(t, err)
		require.Equal(t, want, enabled, value)
	}
	t.Setenv(linkChecksSetting, "maybe")
	_, err := linkChecksEnabled()
	require.ErrorContains(t, err, linkChecksSetting)
}

func TestSettingsErrorsOfSeveralServicesAreReportedOnce(t *testing.T) {
	one, two := errors.New("OPPORTUNITY_LOG_LEVEL: use DEBUG"), errors.New("OPPORTUNITY_TIERS: x")
	err := distinct([]error{nil, errors.Join(one, two), errors.Join(errors.Join(errors.New(one.Error())), nil), one})
	require.EqualError(t, err, "OPPORTUNITY_LOG_LEVEL: use DEBUG\nOPPORTUNITY_TIERS: x")
	require.NoError(t, distinct([]error{nil, nil}))
}

func TestBannerSaysWhyLinksAreNotChecked(t *testing.T) {
	for name, c := range map[string]struct {
		d    *deployment
		want string
	}{
		"localhost": {&deployment{links: true, history: history.Config{PublicURL: "http://localhost:8080"}},
			"OPPORTUNITY_PUBLIC_URL"},
		"switched off": {&deployment{history: history.Config{PublicURL: "https://data.opportunity.ca"}},
			"OPPORTUNITY_LINK_CHECKS is false"},
		"public": {&deployment{links: true, history: history.Config{PublicURL: "https://data.opportunity.ca"}}, ""},
	} {
		if c.want == "" {
			require.Empty(t, c.d.linksOff(), name)
			continue
		}
		require.Contains(t, c.d.linksOff(), c.want, name)
	}
}
