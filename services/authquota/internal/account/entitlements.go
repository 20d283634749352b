package account

import (
	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/dbtx"
)

// EntitlementRow is the entitlement of an account. It counts for the tier of its holder: the account itself, or the one that it
// was merged into.
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
		Tier: api.Tier(r.Tier), PaidUntil: dbtx.Instant(r.PaidUntil), Renews: r.Renews, Trouble: api.Trouble(r.Trouble), Version: r.Version,
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
