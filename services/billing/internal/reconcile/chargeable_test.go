package reconcile

import (
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/billing/internal/subscription"
)

func TestOnlyPlansOfKnownAccountsThatContinueAreCharged(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *subscription.State)
		want   bool
	}{
		"pending":         {func(*subscription.State) {}, true},
		"none pending":    {func(s *subscription.State) { s.PendingInvoice = "" }, false},
		"unknown account": {func(s *subscription.State) { s.Account = "" }, false},
		"other product":   {func(s *subscription.State) { s.Tier = api.Free }, false},
		"ended":           {func(s *subscription.State) { s.Ended = true }, false},
		"cancelled":       {func(s *subscription.State) { s.CancelAtPeriodEnd = true }, false},
	} {
		s := subscription.State{ID: "sub_1", Account: "acc_1", Tier: api.Commercial, PendingInvoice: "in_1"}
		c.change(&s)
		require.Equal(t, c.want, chargeable(s), name)
	}
}
