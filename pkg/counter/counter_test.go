package counter_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/counter"
)

// The keys must not change: two services share them and are deployed one after the other.
func TestLayout(t *testing.T) {
	require.Equal(t, "{oda}:day:2026-11-20", counter.Day("2026-11-20"))
	require.Equal(t, "{oda}:changed:2026-11-20", counter.Changed("2026-11-20"))
	require.Equal(t, "{oda}:minute:acc_1", counter.Window("acc_1"))
	require.Equal(t, "{oda}:epochs", counter.Epochs)
	require.Equal(t, "{oda}:merged", counter.Merged)
	require.Equal(t, "*", counter.ServiceField)
	require.Equal(t, "%", counter.BaseField)
	require.Equal(t, "@", counter.LatestField)
}

func TestDayOfIsTheDayInUTC(t *testing.T) {
	toronto := time.FixedZone("", -5*60*60)
	require.Equal(t, "2026-11-21", counter.DayOf(time.Date(2026, 11, 20, 19, 0, 0, 0, toronto)))
	require.Equal(t, "2026-11-20", counter.DayOf(time.Date(2026, 11, 20, 18, 59, 59, 999999999, toronto)))
}
