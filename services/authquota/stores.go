package authquota

import (
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountview"
	"opportunity.internal/services/authquota/internal/dbtx"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/notices"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/plan"
	"opportunity.internal/services/authquota/internal/requestlog"
	"opportunity.internal/services/authquota/internal/usage"
)

// stores are the stores of all features.
type stores struct {
	people   *people.Store
	keys     *keys.Store
	usage    *usage.Store
	log      *requestlog.Store
	notices  *notices.Store
	plan     *plan.Store
	accounts *accountview.Store
}

// newStores connects the features: where a transaction of one feature changes another, it calls a function of the other's store.
func newStores(db *dbtx.DB, tiers account.TierTable) stores {
	s := stores{
		people: people.NewStore(db),
		keys:   keys.NewStore(db), usage: usage.NewStore(db), log: requestlog.NewStore(db), notices: notices.NewStore(db, tiers), plan: plan.NewStore(db),
	}
	s.accounts = accountview.NewStore(db, s.keys)
	return s
}
