package desk

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/service/servicetest"
)

const token = "operator-token-of-ann-0123456789abcdef"

// start starts a session of ann.
func start() (*servicetest.Clock, *sessionStore, string) {
	c := servicetest.NewClock(time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC))
	s := newSessionStore(c.Now)
	return c, s, s.Start(token, "ann", "curator", "Firefox")
}

func TestCookieResumesItsSessionAndHidesTheToken(t *testing.T) {
	_, s, cookie := start()
	raw, err := base64.RawURLEncoding.DecodeString(cookie)
	require.NoError(t, err)
	require.NotContains(t, string(raw), token)
	got, ok := s.Resume(cookie)
	require.True(t, ok)
	require.Equal(t, []string{"ann", "curator", "Firefox", token}, []string{got.Name, got.Role, got.Browser, got.Token})
	list := s.List(token)
	require.Len(t, list, 1)
	require.Empty(t, list[0].Token)
	require.Empty(t, s.List("operator-token-of-bob-0123456789abcdef"), "a claimed name is no proof")
}

func TestForgedCookiesAreRejected(t *testing.T) {
	_, s, cookie := start()
	_, _, foreign := start()
	raw, err := base64.RawURLEncoding.DecodeString(cookie)
	require.NoError(t, err)
	raw[len(raw)/2] ^= 1
	for _, forged := range []string{"", "x", foreign, base64.RawURLEncoding.EncodeToString(raw), strings.Repeat("A", 200)} {
		_, ok := s.Resume(forged)
		require.False(t, ok, forged)
	}
}

func TestSessionEnds(t *testing.T) {
	c, s, cookie := start()
	end := c.Now().Add(sessionLife)
	for c.Now().Before(end.Add(-sessionIdle)) { // in use
		c.Advance(sessionIdle - time.Second)
		_, ok := s.Resume(cookie)
		require.True(t, ok, c.Now())
	}
	c.Set(end)
	_, ok := s.Resume(cookie)
	require.False(t, ok)

	idle, other := s.Start(token, "ann", "curator", "Safari"), s.Start(token, "ann", "curator", "Safari")
	got, _ := s.Resume(other)
	s.End(got.ID)
	_, ok = s.Resume(other)
	require.False(t, ok)
	_, ok = s.Resume(idle)
	require.True(t, ok, "ending one session ended another")
	c.Advance(sessionIdle)
	require.Empty(t, s.List(token))
	_, ok = s.Resume(idle)
	require.False(t, ok)
}
