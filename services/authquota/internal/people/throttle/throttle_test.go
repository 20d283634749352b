package throttle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/services/authquota/internal/people/throttle"
)

var now = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

func TestWaits(t *testing.T) {
	for _, c := range []struct {
		rule     throttle.Rule
		failures int
		ago      time.Duration
		want     time.Duration
	}{
		{throttle.Address, 0, 0, 0},
		{throttle.Address, 9, 0, 0},
		{throttle.Address, 10, 0, 30 * time.Second},
		{throttle.Address, 10, 10 * time.Second, 20 * time.Second},
		{throttle.Address, 10, 30 * time.Second, 0},
		{throttle.Address, 11, 0, time.Minute},
		{throttle.Address, 12, 0, 2 * time.Minute},
		{throttle.Address, 14, 0, 8 * time.Minute},
		{throttle.Address, 15, 0, 15 * time.Minute},
		{throttle.Address, 1 << 30, 0, 15 * time.Minute},
		{throttle.Address, 1 << 30, 24 * time.Hour, 0},
		{throttle.Address, 10, -time.Hour, 30 * time.Second},
		{throttle.Network, 100, 0, 0},
		{throttle.Network, 101, 0, 30 * time.Second},
		{throttle.Network, 500, time.Hour, 0},
		{throttle.Account, 100, 0, 0},
		{throttle.Account, 101, 0, 30 * time.Second},
		{throttle.Account, 500, 0, time.Minute},
		{throttle.Inside, 9, 0, 0},
		{throttle.Inside, 10, 0, 30 * time.Second},
		{throttle.Inside, 11, 0, time.Minute},
		{throttle.Inside, 50, 0, time.Minute},
	} {
		require.Equal(t, c.want, c.rule.Wait(c.failures, now.Add(-c.ago), now), "%+v", c)
	}
}

func TestCounts(t *testing.T) {
	require.Equal(t, 1, throttle.Address.Count(0, time.Time{}, now))
	require.Equal(t, 8, throttle.Address.Count(7, now.Add(-23*time.Hour), now))
	require.Equal(t, 1, throttle.Address.Count(7, now.Add(-24*time.Hour), now))
	require.Equal(t, 8, throttle.Address.Count(7, now.Add(time.Hour), now))
}

// After the returned delay an attempt is accepted, and no delay exceeds the rule's maximum.
func TestEveryWaitEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := rapid.SampledFrom([]throttle.Rule{throttle.Address, throttle.Network, throttle.Account, throttle.Inside}).Draw(t, "rule")
		failures := rapid.IntRange(0, 1<<40).Draw(t, "failures")
		last := now.Add(time.Duration(rapid.Int64Range(int64(-48*time.Hour), int64(time.Hour)).Draw(t, "last")))
		wait := rule.Wait(failures, last, now)
		require.GreaterOrEqual(t, wait, time.Duration(0))
		require.LessOrEqual(t, wait, rule.Most)
		if !last.After(now) {
			require.Zero(t, rule.Wait(failures, last, now.Add(wait)))
		}
		require.GreaterOrEqual(t, rule.Wait(failures+1, last, now), wait, "one more never costs less")
	})
}

func TestNetworks(t *testing.T) {
	for ip, want := range map[string]string{
		"203.0.113.77": "203.0.113.0/24", "::ffff:203.0.113.77": "203.0.113.0/24", "2001:db8:1:2:3::4": "2001:db8:1::/48",
		"fe80::1%eth0": "fe80::/48", "": "unknown", "localhost": "unknown", "203.0.113.77:80": "unknown",
	} {
		require.Equal(t, want, throttle.NetworkOf(ip), ip)
	}
}

// Shared counters belong to people who do not know each other: a success of one must not clear the failures of the others.
func TestSubjects(t *testing.T) {
	const ip, network = "203.0.113.77", "203.0.113.0/24"
	for _, c := range []struct {
		got, want throttle.Subject
	}{
		{throttle.FromNetwork(ip), throttle.Subject{Rule: throttle.Network, Name: "network " + network, Shared: true}},
		{throttle.OfAddress("a@b", ip), throttle.Subject{Rule: throttle.Address, Name: "address " + network + " a@b"}},
		{throttle.OfSecondStep("acc", ip), throttle.Subject{Rule: throttle.Address, Name: "second step " + network + " acc"}},
		{throttle.OfAccount("acc"), throttle.Subject{Rule: throttle.Account, Name: "account acc", Shared: true}},
		{throttle.OfDevice("acc", "hash"), throttle.Subject{Rule: throttle.Address, Name: "device hash acc"}},
		{throttle.OfSession("ses"), throttle.Subject{Rule: throttle.Inside, Name: "session ses"}},
		{throttle.KeysFor("acc"), throttle.Subject{Rule: throttle.Inside, Name: "keys acc"}},
		{throttle.MailTo("reset", "a@b"), throttle.Subject{Rule: throttle.Address, Name: "mail reset a@b"}},
		{throttle.FormsFrom(ip), throttle.Subject{Rule: throttle.Network, Name: "forms " + network, Shared: true}},
	} {
		require.Equal(t, c.want, c.got)
	}
}
