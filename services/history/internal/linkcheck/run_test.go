package linkcheck_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/history/internal/linkcheck"
)

// The test checks 1,200 links on 60 hosts, four times as many hosts as it checks at once, and kills
// the process midway. The limits for each host hold (type internet checks them) and no link is
// requested twice in a day.
func TestNoLinkIsCheckedTwiceAfterKill(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(testing.TB) *testStore) {
		const hosts, listings, dieAt = 60, 1200, 480
		synctest.Test(t, func(t *testing.T) {
			n := newInternet(t)
			first := open(t)
			pairs := many(listings, hosts)
			first.publish(t, pairs...)
			ctx, kill := context.WithCancel(t.Context())
			first.before(t, recording, func(n int64) error {
				if n <= dieAt {
					return nil
				}
				kill()
				return errors.Join(errDown, first.db.Close())
			})
			began := time.Now()
			_, err := n.checker().Once(ctx, first.Store)
			require.Error(t, err)

			second := open(t)
			_, err = n.checker().Once(t.Context(), second.Store)
			require.ErrorIs(t, err, linkcheck.ErrBusy, "a dead run holds its lease until it expires")
			time.Sleep(2 * time.Minute)
			report, err := n.checker().Once(t.Context(), second.Store)
			require.NoError(t, err)
			require.LessOrEqual(t, report.Lost, hosts, "at most one link of each host may be lost")
			require.Equal(t, listings-dieAt-report.Lost, report.Checked())

			for i := 0; i < len(pairs); i += 2 {
				require.LessOrEqual(t, len(n.times(pairs[i+1])), 1, "%s was requested again", pairs[i])
			}
			var events []int // of each listing
			require.NoError(t, second.db.Raw("SELECT events FROM summaries").Scan(&events).Error)
			require.Len(t, events, listings-report.Lost)
			require.Equal(t, 1, slices.Max(events))
			require.Equal(t, concurrency, n.most)
			require.LessOrEqual(t, n.robots, 2*hosts, "at most once for each host and run")
			t.Logf("%s of simulated time", time.Since(began))

			again, err := n.checker().Once(t.Context(), second.Store)
			require.NoError(t, err)
			require.Zero(t, again.Checked(), "nothing is due")
		})
	})
}

func TestEachLinkIsCheckedOnceADaySpreadOverTheDay(t *testing.T) {
	// SQLite only: hours pass in the bubble, so the pool closes its connections, and reconnecting
	// to Postgres takes long.
	on(t, map[string]string{"sqlite": schema.SQLite(t)}, func(t *testing.T, open func(testing.TB) *testStore) {
		synctest.Test(t, func(t *testing.T) {
			const listings, days = 240, 4
			n, s := newInternet(t), open(t)
			pairs := many(listings, 30)
			s.publish(t, pairs...)
			perRun := map[int]int{}
			for hour := range days * 24 {
				report, err := n.checker().Once(t.Context(), s.Store)
				require.NoError(t, err)
				perRun[hour] = report.Checked()
				time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
			}
			for hour := 48; hour < days*24; hour++ { // the first two days bring in new listings
				require.InDelta(t, listings/24, perRun[hour], 12, "hour %d", hour)
			}
			for i := 0; i < len(pairs); i += 2 {
				times := n.times(pairs[i+1])
				require.GreaterOrEqual(t, len(times), days-1)
				require.LessOrEqual(t, len(times), days+1)
				for j := range times[1:] {
					between := times[j+1].Sub(times[j])
					require.GreaterOrEqual(t, between, 12*time.Hour)
					require.LessOrEqual(t, between, 37*time.Hour)
					if j > 1 {
						require.InDelta(t, 24, between.Hours(), 1.1)
					}
				}
			}
		})
	})
}

// each runs a test with one listing on one host.
func each(t *testing.T, test func(t *testing.T, n *internet, s *testStore)) {
	t.Helper()
	onBoth(t, func(t *testing.T, open func(testing.TB) *testStore) {
		synctest.Test(t, func(t *testing.T) {
			n, s := newInternet(t), open(t)
			s.publish(t, "maple", maple)
			test(t, n, s)
		})
	})
}

const maple = "https://maple.works/apply"

var errDown = errors.New("connection refused")

func TestUnreachableLinkIsRetried(t *testing.T) {
	each(t, func(t *testing.T, n *internet, s *testStore) {
		fails := 3
		n.respond = func(r *http.Request) (int, http.Header, error) {
			if fails--; fails >= 0 {
				return 0, nil, errDown
			}
			return 200, nil, nil
		}
		report, err := n.checker().Once(t.Context(), s.Store)
		require.NoError(t, err)
		require.Equal(t, map[api.Outcome]int{api.OutcomeUnreachable: 1}, report.Outcomes)
		e, events := s.link(t, "maple")
		require.Equal(t, 1, events, "one event for the check, not for each attempt")
		require.Equal(t, "Not reached: the connection failed. 3 attempts.", e.Note)
		require.Equal(t, []string{maple}, e.SourceURLs)
		times := n.times(maple)
		require.Len(t, times, 3)
		require.GreaterOrEqual(t, times[1].Sub(times[0]), time.Minute)
		require.GreaterOrEqual(t, times[2].Sub(times[1]), 5*time.Minute)

		time.Sleep(24 * time.Hour)
		fails = 1
		report, err = n.checker().Once(t.Context(), s.Store)
		require.NoError(t, err)
		require.Equal(t, map[api.Outcome]int{api.OutcomeReachable: 1}, report.Outcomes)
		require.Len(t, n.times(maple), 5)
	})
}

func TestRunWithoutNetworkRecordsNothing(t *testing.T) {
	each(t, func(t *testing.T, n *internet, s *testStore) {
		s.publish(t, many(20, 10)...)
		online := false
		n.unresolved = func(host string) bool { return !online || host == "jobs-3.works" }
		report, err := n.checker().Once(t.Context(), s.Store)
		require.NoError(t, err, "a job that cannot reach anything must not fail")
		require.Equal(t, 21, report.Unresolved)
		require.Zero(t, report.Checked())
		require.Contains(t, report.String(), "21 left to the next run (no host name could be resolved)")
		totals, err := s.LinkTotals(t.Context())
		require.NoError(t, err)
		require.Zero(t, totals.SucceededAt, "an alert depends on it")

		online = true
		report, err = n.checker().Once(t.Context(), s.Store)
		require.NoError(t, err)
		require.Equal(t, map[api.Outcome]int{api.OutcomeReachable: 19, api.OutcomeUnreachable: 2}, report.Outcomes,
			"other names resolve, so the one host has a problem of its own")
	})
}

func TestStoppedRunFinishesChecksInProgress(t *testing.T) {
	each(t, func(t *testing.T, n *internet, s *testStore) {
		s.publish(t, "maple", maple, "birch", "https://birch.works/apply", "birch-too", "https://birch.works/apply/2")
		ctx, stop := context.WithCancelCause(t.Context())
		n.latency = func(r *http.Request) time.Duration {
			if r.URL.Host == "birch.works" && r.URL.Path != "/robots.txt" {
				stop(errors.New("SIGTERM"))
				return 10 * time.Second
			}
			return 0
		}
		n.respond = func(r *http.Request) (int, http.Header, error) {
			if r.URL.Host == "maple.works" && len(n.times(maple)) == 1 {
				return 0, nil, errDown // and waits for its second attempt when the run ends
			}
			return 200, nil, nil
		}
		report, err := n.checker().Once(ctx, s.Store)
		require.ErrorContains(t, err, "run stopped early: SIGTERM")
		require.Equal(t, 1, report.Checked())

		report, err = n.checker().Once(t.Context(), s.Store)
		require.NoError(t, err, "the lease must be released")
		require.Zero(t, report.Lost)
		require.Equal(t, map[api.Outcome]int{api.OutcomeReachable: 2}, report.Outcomes)
		require.Len(t, n.times("https://birch.works/apply"), 1)
		require.Len(t, n.times("https://birch.works/apply/2"), 1)
		require.Len(t, n.times(maple), 2)
	})
}

func TestRunThatLosesItsLeaseSendsNoMoreRequests(t *testing.T) {
	each(t, func(t *testing.T, n *internet, s *testStore) {
		s.publish(t, many(100, 2)...)
		n.latency = func(*http.Request) time.Duration { return time.Second }
		stolen := time.AfterFunc(time.Minute, func() {
			require.NoError(t, s.db.Exec("UPDATE link_run SET run = 'another', held_until = 4000000000000000").Error)
		})
		defer stolen.Stop()
		_, err := n.checker().Once(t.Context(), s.Store)
		require.ErrorContains(t, err, "lease")
		for address := range n.requests {
			for _, at := range n.times(address) {
				require.Less(t, time.Since(at), 2*time.Minute)
			}
		}
		_, err = n.checker().Once(t.Context(), s.Store)
		require.ErrorIs(t, err, linkcheck.ErrBusy, "it must not release the lease of another run")
	})
}

func TestCrawlDelayIsRespected(t *testing.T) {
	each(t, func(t *testing.T, n *internet, s *testStore) {
		n.gaps["jobs-0.works"] = 20 * time.Second
		n.rules = "User-agent: *\nCrawl-delay: 20"
		s.publish(t, many(5, 1)...)
		report, err := n.checker().Once(t.Context(), s.Store)
		require.NoError(t, err)
		require.Equal(t, 6, report.Checked())
		require.GreaterOrEqual(t, report.Duration, 100*time.Second)

		time.Sleep(24 * time.Hour)
		n.rules = "User-agent: *\nCrawl-delay: 3600"
		for left := 4; left >= 0; left-- {
			report, err = n.checker().Once(t.Context(), s.Store)
			require.NoError(t, err)
			require.Equal(t, left, report.Deferred, "one link of the host in each run")
			require.Contains(t, report.String(), map[bool]string{true: "left to the next run",
				false: "checked 1 link in"}[left > 0])
			time.Sleep(time.Hour)
		}
	})
}

func TestOverloadedHostGetsNoMoreRequests(t *testing.T) {
	each(t, func(t *testing.T, n *internet, s *testStore) {
		s.publish(t, many(5, 1)...)
		n.respond = func(r *http.Request) (int, http.Header, error) {
			if r.URL.Host == "maple.works" {
				return 503, http.Header{"Retry-After": {"240"}}, nil
			}
			return 429, nil, nil
		}
		report, err := n.checker().Once(t.Context(), s.Store)
		require.NoError(t, err)
		require.Equal(t, 4, report.Deferred, "after one 429")
		require.Equal(t, map[api.Outcome]int{api.OutcomeBlocked: 1, api.OutcomeUnreachable: 1}, report.Outcomes)
		times := n.times(maple)
		require.Len(t, times, 3)
		require.GreaterOrEqual(t, times[1].Sub(times[0]), 4*time.Minute, "Retry-After must be respected")

		time.Sleep(24 * time.Hour)
		n.requests = map[string][]time.Time{}
		n.respond = func(r *http.Request) (int, http.Header, error) {
			return 503, http.Header{"Retry-After": {time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)}}, nil
		}
		_, err = n.checker().Once(t.Context(), s.Store)
		require.NoError(t, err)
		require.Len(t, n.times(maple), 1, "an hour exceeds the maximum wait")
		e, _ := s.link(t, "maple")
		require.Equal(t, "Answered 503.", e.Note)
	})
}

func TestRedirectsToBusyHostWait(t *testing.T) {
	each(t, func(t *testing.T, n *internet, s *testStore) {
		s.publish(t, many(40, 20)...)
		n.respond = func(r *http.Request) (int, http.Header, error) {
			if r.URL.Host != "all.works" {
				return 302, http.Header{"Location": {"https://all.works" + r.URL.Path}}, nil
			}
			return 200, nil, nil
		}
		report, err := n.checker().Once(t.Context(), s.Store)
		require.NoError(t, err)
		require.Equal(t, map[api.Outcome]int{api.OutcomeNeedsReview: 41}, report.Outcomes)
	})
}

func TestReservedNamesAreNotChecked(t *testing.T) {
	each(t, func(t *testing.T, n *internet, s *testStore) {
		var pairs []string
		for _, host := range []string{"maple.example", "www.example.com", "localhost", "printer.local",
			"vault.internal", "x.test", "EXAMPLE.ORG."} {
			pairs = append(pairs, "on-"+strings.ToLower(strings.ReplaceAll(strings.Trim(host, "."), ".", "-")),
				"https://"+host+"/apply")
		}
		s.publish(t, pairs...)
		report, err := n.checker().Once(t.Context(), s.Store)
		require.NoError(t, err)
		require.Equal(t, 7, report.Reserved)
		require.Equal(t, 1, report.Checked())
		require.Len(t, n.requests, 1)
	})
}

func TestOutcomeIsRecordedAfterShortDatabaseOutage(t *testing.T) {
	each(t, func(t *testing.T, n *internet, s *testStore) {
		s.fails(t, claiming, 3)
		s.fails(t, recording, 3)
		report, err := n.checker().Once(t.Context(), s.Store)
		require.NoError(t, err)
		require.Equal(t, 1, report.Checked())

		time.Sleep(24 * time.Hour)
		s.fails(t, recording+" ", 5) // each attempt
		_, err = n.checker().Once(t.Context(), s.Store)
		require.ErrorContains(t, err, "database unavailable")
		report, err = n.checker().Once(t.Context(), s.Store)
		require.NoError(t, err)
		require.Equal(t, linkcheck.Report{Outcomes: map[api.Outcome]int{}, Lost: 1}, report)
		require.Contains(t, report.String(), "1 lost when a run was killed")
		time.Sleep(24 * time.Hour)
		report, err = n.checker().Once(t.Context(), s.Store)
		require.NoError(t, err)
		require.Equal(t, 1, report.Checked())
	})
}

func TestNonPublicContactPageIsRejected(t *testing.T) {
	for contact, ok := range map[string]bool{
		"https://api.checks.works/docs/link-checker": true, "https://8.8.8.8/": true,
		"http://localhost:8080/docs/link-checker": false,
		"http://127.0.0.1:8080/docs/link-checker": false, "http://[::1]/": false, "http://10.0.0.1/": false,
		"https://api.example/": false,
	} {
		_, err := linkcheck.New(linkcheck.Config{Contact: contact, Concurrency: 1}, nil, time.Now)
		require.Equal(t, ok, err == nil, contact)
		if !ok {
			require.ErrorIs(t, err, linkcheck.ErrNoContact)
		}
	}
}
