package api_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

func TestCheckDateIsADateOrAnRFC3339Timestamp(t *testing.T) {
	for text, want := range map[string]string{
		"2026-11-20":                    "2026-11-20T00:00:00Z",
		"2026-11-20T09:00:00Z":          "2026-11-20T09:00:00Z",
		"2026-11-20T09:00:00.5-05:00":   "2026-11-20T14:00:00.5Z",
		"2026-11-20T00:30:00+23:59":     "2026-11-19T00:31:00Z",
		"2026-11-20T09:00:00+24:00":     "",
		"2026-11-20T09:00:00+05:60":     "",
		"2026-11-20T9:00:00Z":           "",
		"2026-11-20T09:00:00,5Z":        "",
		"2026-11-20T09:00:00":           "",
		"2026-11-20 09:00:00Z":          "",
		"2026-02-30":                    "",
		"20261120":                      "",
		"":                              "",
		"2026-11-20T09:00:00Z and more": "",
	} {
		got, err := api.CheckDate(text).Time()
		if want == "" {
			require.Error(t, err, text)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, want, got.Format(time.RFC3339Nano))
	}
}

func TestTimestampInJSONIsStrict(t *testing.T) {
	var got struct{ Until api.Timestamp }
	require.NoError(t, json.Unmarshal([]byte(`{"Until":"2026-11-20T09:00:00+05:00"}`), &got))
	require.Equal(t, time.Date(2026, 11, 20, 4, 0, 0, 0, time.UTC), got.Until.Time)
	for _, text := range []string{`"2026-11-20T09:00:00+24:00"`, `"2026-11-20T9:00:00Z"`, `"2026-11-20"`, `5`} {
		require.Error(t, json.Unmarshal([]byte(`{"Until":`+text+`}`), &got), text)
	}
}
