package people_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/services/authquota/internal/people"
)

var start = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// session returns a session that started just now.
func session(life time.Duration) people.Session {
	return people.Session{CreatedAt: start, SeenAt: start, AuthenticatedAt: start, ExpiresAt: start.Add(life)}
}

func TestASessionEndsWhenItIsNotUsedAndAfterItsLife(t *testing.T) {
	s := session(people.SessionLife)
	const idle, life = 30 * time.Minute, 12 * time.Hour
	require.True(t, s.Alive(start.Add(idle-1)))
	require.False(t, s.Alive(start.Add(idle)), "idle")
	for at := start; at.Before(start.Add(life)); at = at.Add(idle - 1) {
		require.True(t, s.Alive(at))
		s.SeenAt = at
	}
	s.SeenAt = start.Add(life - 1)
	require.True(t, s.Alive(start.Add(life-1)))
	require.False(t, s.Alive(start.Add(life)), "use does not lengthen the life")
	s.EndedAt = &start
	require.False(t, s.Alive(start), "ended")
}

// A halfway session is short, a proof is recent for a while, and the last use is stored to the
// minute.
func TestTimesOfASession(t *testing.T) {
	ended := func(s people.Session, at time.Time) bool { return !s.Alive(at) }
	for name, c := range map[string]struct {
		life, after time.Duration
		passed      func(s people.Session, at time.Time) bool
	}{
		"halfway":    {people.HalfwayLife, 10 * time.Minute, ended},
		"set-up":     {people.SetUpLife, 30 * time.Minute, ended},
		"proof":      {people.SessionLife, 10 * time.Minute, func(s people.Session, at time.Time) bool { return !s.Recent(at) }},
		"stored use": {people.SessionLife, time.Minute, people.Session.Stale},
	} {
		s := session(c.life)
		require.False(t, c.passed(s, start.Add(c.after-1)), name)
		require.True(t, c.passed(s, start.Add(c.after)), name)
	}
	s := session(people.SessionLife)
	s.Superseded = true
	require.False(t, s.Recent(start), "the previous secret proves nothing")
}

func TestSecretsDiffer(t *testing.T) {
	a, b := people.NewSecret(), people.NewSecret()
	require.NotEqual(t, a, b)
	require.Len(t, a, 43)
	require.Len(t, people.HashSecret(a), 64)
	require.NotContains(t, people.HashSecret(a), a)
}

func TestClients(t *testing.T) {
	for _, c := range []struct{ agent, address, wantAgent, wantNetwork string }{
		{"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "203.0.113.77", "Firefox on Linux",
			"203.0.113.0/24"},
		{"Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0 Safari/537.36 Edg/156.0",
			"::ffff:203.0.113.77", "Edge on Windows", "203.0.113.0/24"},
		{"Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605 Version/19.0 Mobile Safari/604.1",
			"2001:db8:1:2::3", "Safari on iPhone", "2001:db8:1::/48"},
		{"Mozilla/5.0 (Linux; Android 16) AppleWebKit/537.36 Chrome/156.0 Mobile Safari/537.36", "fe80::1%eth0",
			"Chrome on Android", "fe80::/48"},
		{"", "", "Unknown browser", "unknown"},
		{"<script>", "not an address", "Unknown browser", "unknown"},
		{"", "203.0.113.77:80", "Unknown browser", "unknown"},
	} {
		require.Equal(t, people.Client{Agent: c.wantAgent, Network: c.wantNetwork}, people.ClientOf(c.agent, c.address))
	}
}

var now = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

func TestWaits(t *testing.T) {
	for _, c := range []struct {
		rule     people.AttemptRule
		failures int
		ago      time.Duration
		want     time.Duration
	}{
		{people.AddressRule, 0, 0, 0},
		{people.AddressRule, 9, 0, 0},
		{people.AddressRule, 10, 0, 30 * time.Second},
		{people.AddressRule, 10, 10 * time.Second, 20 * time.Second},
		{people.AddressRule, 10, 30 * time.Second, 0},
		{people.AddressRule, 11, 0, time.Minute},
		{people.AddressRule, 12, 0, 2 * time.Minute},
		{people.AddressRule, 14, 0, 8 * time.Minute},
		{people.AddressRule, 15, 0, 15 * time.Minute},
		{people.AddressRule, 1 << 30, 0, 15 * time.Minute},
		{people.AddressRule, 1 << 30, 24 * time.Hour, 0},
		{people.AddressRule, 10, -time.Hour, 30 * time.Second},
		{people.NetworkRule, 100, 0, 0},
		{people.NetworkRule, 101, 0, 30 * time.Second},
		{people.NetworkRule, 500, time.Hour, 0},
		{people.AccountRule, 100, 0, 0},
		{people.AccountRule, 101, 0, 30 * time.Second},
		{people.AccountRule, 500, 0, time.Minute},
		{people.SessionRule, 9, 0, 0},
		{people.SessionRule, 10, 0, 30 * time.Second},
		{people.SessionRule, 11, 0, time.Minute},
		{people.SessionRule, 50, 0, time.Minute},
	} {
		require.Equal(t, c.want, c.rule.Wait(c.failures, now.Add(-c.ago), now), "%+v", c)
	}
}

func TestCounts(t *testing.T) {
	require.Equal(t, 1, people.AddressRule.Count(0, time.Time{}, now))
	require.Equal(t, 8, people.AddressRule.Count(7, now.Add(-23*time.Hour), now))
	require.Equal(t, 1, people.AddressRule.Count(7, now.Add(-24*time.Hour), now))
	require.Equal(t, 8, people.AddressRule.Count(7, now.Add(time.Hour), now))
}

// After the returned delay an attempt is accepted, and no delay exceeds the rule's maximum.
func TestEveryWaitEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := rapid.SampledFrom(
			[]people.AttemptRule{people.AddressRule, people.NetworkRule, people.AccountRule, people.SessionRule}).Draw(t, "rule")
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
