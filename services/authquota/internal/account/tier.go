package account

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"opportunity.internal/pkg/api"
)

// TierTable maps tiers to their limits.
type TierTable map[api.Tier]api.Limits

// Bounds of an override. Redis stores every admission of the last minute, which limits
// maxPerMinute.
const (
	maxPerMinute = 10_000
	maxPerDay    = 1_000_000_000
)

// ParseTiers reads overrides such as "free=10/100/10,developer=60/1000/50": requests per minute,
// requests per UTC day, records per page. Omitted tiers keep their limits. Overrides do not change
// which tiers include history. The returned error joins all problems.
func ParseTiers(overrides string) (TierTable, error) {
	table := make(TierTable, len(api.Tiers))
	for _, t := range api.Tiers {
		table[t.Tier] = t.Limits
	}
	if strings.TrimSpace(overrides) == "" {
		return table, nil
	}
	var mistakes []error
	seen := map[api.Tier]bool{}
	for entry := range strings.SplitSeq(overrides, ",") {
		name, figures, _ := strings.Cut(strings.TrimSpace(entry), "=")
		limits, known := table[api.Tier(name)]
		switch {
		case !known:
			mistakes = append(mistakes, fmt.Errorf("%q is not a tier", name))
			continue
		case seen[api.Tier(name)]:
			mistakes = append(mistakes, fmt.Errorf("%s appears twice", name))
			continue
		}
		seen[api.Tier(name)] = true
		if err := parse(figures, &limits); err != nil {
			mistakes = append(mistakes, fmt.Errorf("%s: %w", name, err))
		}
		table[api.Tier(name)] = limits
	}
	return table, errors.Join(mistakes...)
}

// List returns the table in the order of api.Tiers.
func (t TierTable) List() []api.TierLimits {
	list := make([]api.TierLimits, len(api.Tiers))
	for i, known := range api.Tiers {
		list[i] = api.TierLimits{Tier: known.Tier, Limits: t[known.Tier]}
	}
	return list
}

func parse(figures string, limits *api.Limits) error {
	parts := strings.Split(figures, "/")
	if len(parts) != 3 {
		return fmt.Errorf("%q is not of the form per minute/per day/page size", figures)
	}
	for i, f := range []struct {
		name string
		into *int
		most int
	}{
		{"per minute", &limits.PerMinute, maxPerMinute},
		{"per day", &limits.PerDay, maxPerDay},
		{"page size", &limits.PageSize, api.MaxPageSize},
	} {
		n, err := strconv.Atoi(parts[i])
		if err != nil || n < 1 || n > f.most {
			return fmt.Errorf("%s must be an integer from 1 to %d", f.name, f.most)
		}
		*f.into = n
	}
	return nil
}
