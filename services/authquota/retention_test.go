package authquota_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
)

// The service deletes what its stores have kept long enough.
func TestSignInDataIsDeletedAfterRetention(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc, clock := s.startAt(t, begin)
		b := svc.browser()
		b.signUp("ada@example.org")
		b.Post("/account/sign-in", "email", "nobody@example.org", "password", "a guess that is wrong").Shows(http.StatusUnprocessableEntity)
		emptied := func() bool {
			rows := s.open(t).Dump(t)
			return rows["sessions"] == "[]" && rows["links"] == "[]" && rows["attempts"] == "[]" && rows["devices"] == "[]"
		}
		require.False(t, emptied())
		svc.stop()
		s.start(t, on(servicetest.NewClock(clock.Now().Add(401*24*time.Hour))))
		storetest.Eventually(t, "deleted", emptied)
		require.NotEqual(t, "[]", s.open(t).Dump(t)["people"])
	})
}
