package api_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

func TestProfileIsFreshUntil90DaysAfterItsOldestCheck(t *testing.T) {
	for oldest, end := range map[api.CheckDate]string{
		"2026-08-25T09:30:00.5Z": "2026-11-23T09:30:00.5Z", "2026-08-25": "2026-11-23T00:00:00Z", "": "",
	} {
		var p api.CompanyProfile
		if oldest != "" {
			p.Bio = &api.ProfileText{CheckedAt: "2026-11-20"}
			p.EvidenceAssessment = &api.Assessment{CheckedAt: oldest}
		}
		p.Complete()
		if end == "" {
			require.Nil(t, p.FreshUntil)
			require.Equal(t, api.ProfileUnknown, p.FreshnessAt(time.Now()))
			continue
		}
		require.Equal(t, end, p.FreshUntil.Format(time.RFC3339Nano))
		require.Equal(t, api.ProfileFresh, p.FreshnessAt(p.FreshUntil.Add(-time.Microsecond)))
		require.Equal(t, api.ProfileStale, p.FreshnessAt(*p.FreshUntil))
	}
}
