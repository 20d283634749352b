package account

import (
	"slices"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/accountdb"
)

// Standing determines the tier of an account.
type Standing struct {
	Granted api.Tier          // by an operator, or free
	Paid    []api.Entitlement // of the account and of accounts merged into it
}

// TierAt returns the tier at a time: the best of the granted and the paid ones.
func (s Standing) TierAt(at time.Time) api.Tier {
	best := s.Granted
	for _, e := range s.Paid {
		if e.Live(at) {
			best = HigherTier(best, e.Tier)
		}
	}
	return best
}

// ChangeAfter returns the next automatic change of the tier after now. ok is false if there is
// none.
func (s Standing) ChangeAfter(now time.Time) (at time.Time, to api.Tier, ok bool) {
	for _, e := range s.Paid {
		if e.Live(now) && s.TierAt(*e.PaidUntil) != s.TierAt(now) && (!ok || e.PaidUntil.Before(at)) {
			at, ok = *e.PaidUntil, true
		}
	}
	if ok {
		to = s.TierAt(at)
	}
	return at, to, ok
}

// PaidAt returns the most relevant entitlement: the one with the best tier in effect, then the one
// that ends last. It returns nil if there is none.
func (s Standing) PaidAt(at time.Time) *api.Entitlement {
	var most *api.Entitlement
	for i := range s.Paid {
		if e := &s.Paid[i]; most == nil || outdoes(e, most, at) {
			most = e
		}
	}
	return most
}

func outdoes(e, other *api.Entitlement, at time.Time) bool {
	switch {
	case e.Live(at) != other.Live(at):
		return e.Live(at)
	case e.Tier != other.Tier:
		return HigherTier(e.Tier, other.Tier) == e.Tier
	}
	return e.PaidUntil != nil && e.PaidUntil.After(*other.PaidUntil) // with the same tier, both have an end or neither has
}

// Pays reports whether a paid period is in effect or will be charged again.
func (s Standing) Pays(at time.Time) bool {
	return slices.ContainsFunc(s.Paid, func(e api.Entitlement) bool { return e.Renews || e.Live(at) })
}

// EntitlementRow is the entitlement of an account. It counts for the tier of its holder: the
// account itself, or the one that it was merged into.
type EntitlementRow struct {
	AccountID  string `gorm:"primaryKey"`
	HolderID   string
	Tier       string
	PaidUntil  *int64
	Renews     bool
	Trouble    string
	Version    int64
	SaidActive bool `gorm:"column:told_on"` // whether the mails so far say that the plan is active
}

// TableName implements gorm's Tabler.
func (EntitlementRow) TableName() string { return "entitlements" }

// Entitlement returns the entitlement as billing reported it.
func (r EntitlementRow) Entitlement() api.Entitlement {
	return api.Entitlement{
		Tier: api.Tier(r.Tier), PaidUntil: accountdb.Instant(r.PaidUntil), Renews: r.Renews, Trouble: api.Trouble(r.Trouble), Version: r.Version,
	}
}

// Paid returns the entitlements that count for the given accounts, by account.
func Paid(db *gorm.DB, holders ...string) (map[string][]api.Entitlement, error) {
	var rows []EntitlementRow
	err := db.Order("account_id").Find(&rows, "holder_id IN ?", holders).Error
	paid := make(map[string][]api.Entitlement, len(rows))
	for _, r := range rows {
		paid[r.HolderID] = append(paid[r.HolderID], r.Entitlement())
	}
	return paid, err
}
