package authquota

import (
	accountstore "opportunity.internal/services/authquota/internal/accountview/store"
	"opportunity.internal/services/authquota/internal/dbtx"
	keystore "opportunity.internal/services/authquota/internal/keys/store"
	noticestore "opportunity.internal/services/authquota/internal/notices/store"
	peoplestore "opportunity.internal/services/authquota/internal/people/store"
	planstore "opportunity.internal/services/authquota/internal/plan/store"
	"opportunity.internal/services/authquota/internal/plan/tier"
	logstore "opportunity.internal/services/authquota/internal/requestlog/store"
	usagestore "opportunity.internal/services/authquota/internal/usage/store"
)

// stores are the stores of all features.
type stores struct {
	people   *peoplestore.Store
	keys     *keystore.Store
	usage    *usagestore.Store
	log      *logstore.Store
	notices  *noticestore.Store
	plan     *planstore.Store
	accounts *accountstore.Store
}

// newStores connects the features: where a transaction of one feature changes another, it calls a function of the other's store.
func newStores(db *dbtx.DB, tiers tier.Table) stores {
	s := stores{
		people: peoplestore.New(db),
		keys:   keystore.New(db), usage: usagestore.New(db), log: logstore.New(db), notices: noticestore.New(db, tiers), plan: planstore.New(db),
	}
	s.accounts = accountstore.New(db, s.keys)
	return s
}
