package authquota

import (
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/keyusage"
	"opportunity.internal/services/authquota/internal/notices"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/plan"
)

// stores are the stores of all features.
type stores struct {
	people  *people.Store
	keys    *keys.Store
	usage   *keyusage.Store
	log     *keyusage.RequestLog
	notices *notices.Store
	plan    *plan.Store
}

// newStores connects the features: where a transaction of one feature changes another, it calls a function of the other's store.
func newStores(db *accountdb.DB, tiers account.TierTable) stores {
	return stores{
		people: people.NewStore(db),
		keys:   keys.NewStore(db), usage: keyusage.NewStore(db), log: keyusage.NewRequestLog(db), notices: notices.NewStore(db, tiers), plan: plan.NewStore(db),
	}
}
