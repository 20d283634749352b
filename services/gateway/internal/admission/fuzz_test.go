package admission

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/storetest/redistest"
)

// FuzzStoredValues plants a text in each place of Redis that admission reads, and in the type of
// each key. No decision exceeds the bounds of its figures, and calls are admitted again without a
// restart: at once where the ledger or a default replaces the text, otherwise when the key is gone.
func FuzzStoredValues(f *testing.F) {
	for _, text := range []string{"", "abc", "-1", "-9223372036854775808", "9223372036854775807", "99999999999999999999",
		"1e300", "nan", "inf", "0x10", "4294967296", " 1", "1.5"} {
		f.Add(text)
	}
	client := redistest.Start(f).Client()
	f.Fuzz(func(t *testing.T, text string) {
		ctx, p := t.Context(), api.Principal{Account: "acc_a", Epoch: 3, Tier: api.BaseTier,
			Limits: api.Limits{PerMinute: 1000, PerDay: 1000}}
		today := counter.DayOf(client.Time(ctx).Val())
		day := counter.Day(today)
		places := map[string]func(){
			"clock step": func() { client.HSet(ctx, counter.Clock, "decided", text, "correction", text) },
			"window":     func() { client.LPush(ctx, counter.Window(p.Account), text, text) },
			"merged":     func() { client.HSet(ctx, counter.Merged, p.Account, text) },
		}
		for _, field := range []string{counter.ServiceField, counter.BaseField, counter.LatestField, p.Account} {
			places["day "+field] = func() { client.HSet(ctx, day, field, text) }
		}
		for _, field := range []string{"correction", "future", "charged", "decided"} {
			places["clock "+field] = func() { client.HSet(ctx, counter.Clock, field, text) }
		}
		for _, key := range []string{day, counter.Clock, counter.Epochs, counter.Window(p.Account), counter.Changed(today)} {
			places["key "+key] = func() { client.Set(ctx, key, text, 0) }
		}
		for place, plant := range places {
			reset := func() {
				require.NoError(t, client.FlushDB(ctx).Err())
				require.NoError(t, client.HSet(ctx, counter.Epochs, p.Account, p.Epoch).Err())
			}
			reset()
			l := newLimiter(client, 1_000_000, emptyLedger(client))
			_, err := l.Admit(ctx, p)
			require.NoError(t, err)
			plant()
			for range 3 {
				d, err := l.Admit(ctx, p)
				if place[:3] != "key" && place[:3] != "clo" {
					require.NoError(t, err, place)
				}
				if err != nil {
					continue
				}
				require.True(t, d.Today >= 0 && d.Today <= math.MaxInt32, "%s: %v", place, d)
				require.True(t, d.Recent >= 0 && d.Recent <= p.Limits.PerMinute, "%s: %v", place, d)
				require.True(t, d.Room >= 0 && d.Room <= 2*60e9, "%s: %v", place, d)
				require.True(t, l.Used() >= 0 && l.UsedByBase() >= 0, place)
				_ = l.Refund(ctx, p.Account, &d)
				require.True(t, d.Today >= 0 && d.Today <= math.MaxInt32, "%s: %v after the refund", place, d)
			}
			_, _ = l.Current(ctx, p)
			_ = l.OpenNextDay(ctx)
			reset()
			admitted := func() bool {
				d, err := l.Admit(ctx, p)
				return err == nil && d.Verdict == Admitted
			}
			storetest.Eventually(t, place+": admitted without a restart", admitted)
		}
	})
}
