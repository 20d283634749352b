package people_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/authquota/internal/people"
)

var start = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

func TestASessionEndsWhenItIsNotUsedAndAfterItsLife(t *testing.T) {
	s, _ := people.NewSession("acc", people.Full, people.SessionLife, people.Client{}, start)
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

func TestAHalfwaySessionIsShort(t *testing.T) {
	for life, want := range map[time.Duration]time.Duration{people.HalfwayLife: 10 * time.Minute, people.SetUpLife: 30 * time.Minute} {
		s, _ := people.NewSession("acc", people.Halfway, life, people.Client{}, start)
		require.True(t, s.Alive(start.Add(want-1)))
		require.False(t, s.Alive(start.Add(want)))
	}
}

func TestAProofIsRecentForAWhile(t *testing.T) {
	s, _ := people.NewSession("acc", people.Full, people.SessionLife, people.Client{}, start)
	require.True(t, s.Recent(start.Add(10*time.Minute-1)))
	require.False(t, s.Recent(start.Add(10*time.Minute)))
	s.Superseded = true
	require.False(t, s.Recent(start), "the previous secret proves nothing")
}

func TestLastUseIsStoredToTheMinute(t *testing.T) {
	s, _ := people.NewSession("acc", people.Full, people.SessionLife, people.Client{}, start)
	require.False(t, s.Stale(start.Add(time.Minute-1)))
	require.True(t, s.Stale(start.Add(time.Minute)))
}

func TestSecretsDiffer(t *testing.T) {
	_, a := people.NewSession("acc", people.Full, people.SessionLife, people.Client{}, start)
	_, b := people.NewSession("acc", people.Full, people.SessionLife, people.Client{}, start)
	require.NotEqual(t, a, b)
	require.Len(t, a, 43)
	require.Len(t, people.HashSecret(a), 64)
	require.NotContains(t, people.HashSecret(a), a)
}

func TestClients(t *testing.T) {
	for _, c := range []struct{ agent, address, wantAgent, wantNetwork string }{
		{"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "203.0.113.77", "Firefox on Linux", "203.0.113.0/24"},
		{"Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0 Safari/537.36 Edg/156.0", "::ffff:203.0.113.77", "Edge on Windows", "203.0.113.0/24"},
		{"Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605 Version/19.0 Mobile Safari/604.1", "2001:db8:1:2::3", "Safari on iPhone", "2001:db8:1::/48"},
		{"Mozilla/5.0 (Linux; Android 16) AppleWebKit/537.36 Chrome/156.0 Mobile Safari/537.36", "fe80::1%eth0", "Chrome on Android", "fe80::/48"},
		{"", "", "Unknown browser", "unknown"},
		{"<script>", "not an address", "Unknown browser", "unknown"},
	} {
		require.Equal(t, people.Client{Agent: c.wantAgent, Network: c.wantNetwork}, people.ClientOf(c.agent, c.address))
	}
}
