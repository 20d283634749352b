package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

func TestRejectionsNameTheLimitAndTheWait(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	d := Decision{Limits: api.Limits{PerMinute: 10, PerDay: 100}, Clock: noon, Day: Day(noon.Unix() / 86400)}
	minute, day, service := d, d, d
	minute.MinuteFull, minute.Room = true, 22*time.Second+time.Millisecond
	day.DayFull, service.ServiceFull = true, true
	for want, d := range map[string]Decision{
		"Minute limit reached (10 requests in any 60 seconds). Retry in 23 seconds.":                       minute,
		"Daily limit reached (100 requests per UTC day; it resets at 00:00 UTC). Retry in 43200 seconds.":  day,
		"Daily capacity reached (shared by all accounts; it resets at 00:00 UTC). Retry in 43200 seconds.": service,
	} {
		require.Equal(t, want, d.Problem().Message)
		require.Equal(t, d.RetryAfter(), d.Problem().RetryAfter)
	}
}
