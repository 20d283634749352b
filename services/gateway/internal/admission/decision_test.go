package admission

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

func TestRejectionsNameTheLimitAndTheWait(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	d := Decision{Limits: api.Limits{PerMinute: 10, PerDay: 100}, Clock: noon, Day: Day(noon.Unix() / 86400)}
	d.Room = 22*time.Second + time.Millisecond
	minute, day, base, service := d, d, d, d
	minute.MinuteFull = true
	day.MinuteFull, day.DayFull = true, true
	base.MinuteFull, base.DayFull, base.BaseFull = true, true, true
	service.MinuteFull, service.DayFull, service.BaseFull, service.ServiceFull = true, true, true, true
	for want, d := range map[string]Decision{
		"Minute limit reached (10 requests in any 60 seconds). Retry in 23 seconds.":                       minute,
		"Daily limit reached (100 requests per UTC day; it resets at 00:00 UTC). Retry in 43200 seconds.":  day,
		"Daily capacity reached (shared by all accounts; it resets at 00:00 UTC). Retry in 43200 seconds.": service,
		"Daily capacity of the free tier reached (shared by all of its accounts; it resets at 00:00 UTC). " +
			"Retry in 43200 seconds.": base,
	} {
		require.Equal(t, want, d.Problem().Message)
		require.Equal(t, d.RetryAfter(), d.Problem().RetryAfter)
	}
}

// Times are rounded up to seconds, and the remaining quota is never negative.
func TestHeadersOfADecision(t *testing.T) {
	clock := time.Date(2026, 11, 20, 23, 59, 0, 1, time.UTC)
	day := Day(clock.Unix() / 86400)
	d := Decision{Limits: api.Limits{PerMinute: 10, PerDay: 100}, Clock: clock, Day: day, Today: 30, Recent: 4,
		Room: 22*time.Second + 1}
	used := d
	used.Today, used.Recent, used.Room = 101, 11, 22*time.Second
	for fields, d := range map[string]Decision{
		`70 "minute";r=6;t=23, "day";r=70;t=60`: d,
		`0 "minute";r=0;t=22, "day";r=0;t=60`:   used,
	} {
		h := http.Header{}
		d.SetHeaders(h)
		field := func(name string) string { return h[name][0] } // spelled as documented, not as net/http would
		require.Equal(t, fields, field("X-RateLimit-Remaining")+" "+field("RateLimit"))
		require.Equal(t, "100", field("X-RateLimit-Limit"))
		require.Equal(t, strconv.FormatInt(time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC).Unix(), 10),
			field("X-RateLimit-Reset"))
		require.Equal(t, `"minute";q=10;w=60, "day";q=100;w=86400`, field("RateLimit-Policy"))
	}
}
