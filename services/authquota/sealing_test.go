package authquota_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/testkit"
)

// An encryption key is rotated in three steps: add the new one in front, restart to seal everything
// again, remove the old one.
func TestEncryptionKeysRotate(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		older, newer := s.Config().Encryption[0], strings.Repeat("f0", 32)
		with := func(keys ...string) func(*authquota.Config) {
			return func(c *authquota.Config) { c.Encryption = keys }
		}
		svc, clock := s.startAt(t, begin, with(older))
		b := svc.browser()
		b.signUp("ada@example.org")
		shown := testkit.Seed(b.Get("/account/security/authenticator")) // a second seed, of a set-up in progress
		for table, rows := range s.open(t).Dump(t) {
			require.NotContains(t, rows, b.Seed, table)
			require.NotContains(t, rows, shown, table)
		}
		svc.stop()

		svc = s.start(t, on(clock), with(newer, older))
		db := s.open(t)
		db.Box = testkit.Box(t, "f0")
		current, _, err := people.NewStore(db.DB).Session(t.Context(), b.Cookies["__Host-session"])
		require.NoError(t, err)
		storetest.Eventually(t, "sealed again at the start", func() bool {
			factors := people.NewStore(db.DB)
			seed, err := factors.Seed(t.Context(), b.Account)
			next, errNext := factors.NewSeed(t.Context(), current)
			return err == nil && errNext == nil && seed == b.Seed && next.Seed == shown
		})
		svc.stop()

		svc = s.start(t, on(clock), with(newer))
		b = b.at(svc)
		require.Equal(t, shown, testkit.Seed(b.Get("/account/security/authenticator")))
		clock.Advance(time.Minute)
		b.other().SignIn()
		svc.stop()

		// too early: an error is logged, and signing in fails
		svc = s.start(t, on(clock), with(older))
		storetest.Eventually(t, "said", func() bool {
			return strings.Contains(svc.Log.String(), "sealed texts do not open")
		})
		again := b.at(svc).other()
		again.EnterPassword().Leads("/account/sign-in/code")
		again.Post("/account/sign-in/code", "code", again.Code()).Shows(500)
		require.NotContains(t, svc.Log.String(), b.Seed)
	})
}
