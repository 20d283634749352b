package docsite

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"opportunity.internal/pkg/api"
)

// Figures are the limits that an installation uses.
type Figures struct {
	Tiers    []api.TierLimits // in the order of api.Tiers
	Capacity int              // requests of all accounts together in one UTC day
}

// defaults are the figures that the sources of the documents state.
var defaults = Figures{api.DefaultLimits(), api.ServiceCapacity}

// Validate reports an error unless the figures cover every tier.
func (f Figures) Validate() error {
	same := slices.EqualFunc(f.Tiers, api.Tiers, func(a api.TierLimits, b api.TierInfo) bool { return a.Tier == b.Tier })
	if !same || f.Capacity < 1 {
		return fmt.Errorf("incomplete figures: %+v", f)
	}
	return nil
}

// phrases returns every wording by which a document states a figure. The sources state those of the
// defaults; the served documents those of the installation. A figure that is worded in another way
// would not follow the settings: figures_test.go looks for such.
func (f Figures) phrases() []string {
	var all []string
	for _, t := range f.Tiers {
		day, minute := t.Limits.PerDay, t.Limits.PerMinute
		history := map[bool]string{false: "no", true: "yes"}[t.Limits.History]
		all = append(all,
			fmt.Sprintf("| %s | %s | %s | %s | %s |", t.Tier, thousands(day), thousands(minute), history,
				thousands(t.Limits.PageSize)),
			fmt.Sprintf("X-RateLimit-Limit: %d\n", day),
			fmt.Sprintf("X-RateLimit-Remaining: %d\n", day-1),
			fmt.Sprintf(`"minute";q=%d;w=60, "day";q=%d;w=86400`, minute, day),
			fmt.Sprintf(`"minute";r=%d;`, minute-1),
			fmt.Sprintf(`"day";r=%d;`, day-1),
			fmt.Sprintf("X-RateLimit-Remaining: %d\n", max(0, day-minute)),
			fmt.Sprintf(`"minute";r=0;t=23, "day";r=%d;`, max(0, day-minute)),
			fmt.Sprintf("Minute limit reached (%d requests", minute),
			fmt.Sprintf("Daily limit reached (%d requests", day),
		)
		if t.Tier == api.ExampleTier { // examples of headers in the interface description
			all = append(all, fmt.Sprintf("example: %d\n", day), fmt.Sprintf("example: %d\n", day-1))
		}
	}
	return append(all, fmt.Sprintf("share %s requests a day", thousands(f.Capacity)))
}

func (f Figures) apply(source []byte) (text string, found bool) {
	var pairs []string
	phrases := f.phrases()
	for i, old := range defaults.phrases() {
		pairs = append(pairs, old, phrases[i])
		found = found || strings.Contains(string(source), old)
	}
	return strings.NewReplacer(pairs...).Replace(string(source)), found
}

func thousands(n int) string { return humanize.Comma(int64(n)) }
