package keyusage_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/keyusage"
)

const (
	keyA = "key_0199a7a0000070008000000000000001"
	keyB = "key_0199a7a0000070008000000000000002"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestABatchIsAddedUp(t *testing.T) {
	id := uuid.Must(uuid.NewV7()).String()
	got, err := keyusage.Check(api.UsageBatch{ID: id, Counts: []api.UsageCount{
		{Day: "2026-11-20", Key: keyB, Outcome: api.CallServed, Calls: 2, LastAt: noon.Add(-time.Minute)},
		{Day: "2026-11-20", Key: keyA, Outcome: api.CallServed, Calls: 1, LastAt: noon.Add(time.Hour)},
		{Day: "2026-11-20", Key: keyB, Outcome: api.CallServed, Calls: 3, LastAt: noon.Add(-time.Hour)},
		{Day: "2026-11-19", Key: keyB, Outcome: api.CallFailed, Calls: 4, LastAt: noon.Add(-13 * time.Hour)},
	}}, noon)
	require.NoError(t, err)
	require.Equal(t, keyusage.Batch{ID: id, Sums: []keyusage.KeySum{
		{keyA, "2026-11-20", api.CallServed, 1},
		{keyB, "2026-11-19", api.CallFailed, 4},
		{keyB, "2026-11-20", api.CallServed, 5},
	}, LastUsed: map[string]time.Time{keyA: noon, keyB: noon.Add(-time.Minute)}}, got)
}

func TestInvalidBatchesAreRejected(t *testing.T) {
	id := uuid.Must(uuid.NewV7()).String()
	good := api.UsageCount{Day: "2026-11-20", Key: keyA, Outcome: api.CallServed, Calls: 1, LastAt: noon}
	with := func(change func(*api.UsageCount)) api.UsageBatch {
		bad := good
		change(&bad)
		return api.UsageBatch{ID: id, Counts: []api.UsageCount{good, bad}}
	}
	for name, c := range map[string]struct {
		batch api.UsageBatch
		words string
	}{
		"no id":             {api.UsageBatch{Counts: []api.UsageCount{good}}, "Parameter id"},
		"an id of old":      {api.UsageBatch{ID: uuid.NewString()}, "version 7"},
		"an id in capitals": {api.UsageBatch{ID: "0199A7A0-0000-7000-8000-00000000000A"}, "lower case"},
		"too many":          {api.UsageBatch{ID: id, Counts: make([]api.UsageCount, api.MaxUsageCounts+1)}, "at most 5000"},
		"no key":            {with(func(t *api.UsageCount) { t.Key = "acc_1" }), "counts[1].key"},
		"no such outcome":   {with(func(t *api.UsageCount) { t.Outcome = "lost" }), "counts[1].outcome"},
		"no day":            {with(func(t *api.UsageCount) { t.Day = "2026-11-31" }), "counts[1].day"},
		"a day to come":     {with(func(t *api.UsageCount) { t.Day = "2026-11-22" }), "counts[1].day"},
		"a forgotten day":   {with(func(t *api.UsageCount) { t.Day = keyusage.Last(noon, keyusage.RetentionDays+1).From }), "counts[1].day"},
		"no calls":          {with(func(t *api.UsageCount) { t.Calls = 0 }), "counts[1].calls"},
		"fewer than none":   {with(func(t *api.UsageCount) { t.Calls = -1 }), "counts[1].calls"},
		"beyond all calls":  {with(func(t *api.UsageCount) { t.Calls = 2_000_000_000 }), "counts[1].calls"},
		"no time":           {with(func(t *api.UsageCount) { t.LastAt = time.Time{} }), "counts[1].lastAt"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := keyusage.Check(c.batch, noon)
			require.ErrorContains(t, err, c.words)
		})
	}
	for _, day := range []string{"2026-11-21", keyusage.Last(noon, keyusage.RetentionDays).From} {
		_, err := keyusage.Check(with(func(t *api.UsageCount) { t.Day = day }), noon)
		require.NoError(t, err, day)
	}
}
