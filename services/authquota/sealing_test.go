package authquota_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/secretbox"
)

// seeds returns the sealed seeds in the database.
func (s *stores) seeds(t *testing.T) (texts []string) {
	t.Helper()
	require.NoError(t, s.open(t).Raw("SELECT totp_seed FROM people WHERE totp_seed <> '' UNION SELECT new_seed FROM sessions WHERE new_seed <> ''").
		Scan(&texts).Error)
	return texts
}

// An encryption key is rotated in three steps: add the new one in front, restart to seal everything again, remove the old one.
func TestEncryptionKeysRotate(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		older, newer := strings.Repeat("0f", 32), strings.Repeat("f0", 32)
		with := func(keys ...string) func(*authquota.Config) {
			return func(c *authquota.Config) { c.Encryption = keys }
		}
		svc, _ := s.startWithClock(t, with(older))
		b := svc.browser()
		b.signUp("ada@example.org")
		b.get("/account/security/authenticator") // a second seed, of a set-up in progress
		require.Len(t, s.seeds(t), 2)
		for _, text := range s.seeds(t) {
			require.NotContains(t, text, b.seed)
		}
		svc.stop()

		box, err := secretbox.Parse([]string{newer})
		require.NoError(t, err)
		svc, _ = s.startWithClock(t, with(newer, older))
		storetest.Eventually(t, "sealed anew at the start", func() bool {
			for _, text := range s.seeds(t) {
				if !box.Current(text) {
					return false
				}
			}
			return true
		})
		svc.stop()

		svc, clock := s.startWithClock(t, with(newer))
		b.svc = svc
		back := b.other()
		back.signInAgain(clock)
		svc.stop()

		// too early: an error is logged, and signing in fails
		svc, _ = s.startWithClock(t, with(older))
		storetest.Eventually(t, "said", func() bool {
			return strings.Contains(svc.log.String(), "sealed texts do not open")
		})
		b.svc = svc
		again := b.other()
		again.enterPassword().leads("/account/sign-in/code")
		again.post("/account/sign-in/code", "code", again.code()).shows(500)
		require.NotContains(t, svc.log.String(), b.seed)
	})
}
