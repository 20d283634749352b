package accountpages

import (
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/pages"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/plan"
)

type homeView struct {
	keys.Overview

	Offer   plan.Offer
	Today   Allowance
	MaxKeys int
	Soon    bool // a key expires within soon
	Steps   []step
	Public  string
}

type step struct {
	Done bool
	Text string
	Path string // page for this step; empty if there is none
}

// soon is the time before expiry when the home page shows a notice about a key.
const soon = 30 * 24 * time.Hour

// few is the number of recovery codes below which the home page shows a notice.
const few = 3

func (p *Pages) home(v *Visit) (pages.View, error) {
	today, err := p.today(v)
	if err != nil {
		return pages.View{}, err
	}
	shown := homeView{
		Offer: plan.OfferOf(v.Person.Tier, p.Tiers), Today: today, MaxKeys: keys.MaxActive, Public: p.PublicURL,
	}
	if shown.Overview, err = p.Keys.Overview(v.ctx(), v.Person.Account); err != nil {
		return pages.View{}, err
	}
	shown.Soon = shown.Expiring != nil && shown.Expiring.Sub(v.Now) <= soon
	if !shown.Called && today.Used == 0 {
		requested := shown.Active > 0 || shown.Pending > 0 || shown.Ready > 0
		shown.Steps = []step{
			{true, "Set up your authenticator", ""},
			{requested, "Request a key and say what it is for", keysPath + "/new"},
			{shown.Active > 0, "Collect the key", keysPath},
			{false, "Send the first request", ""},
		}
		if !requested {
			shown.Steps[2].Path = "" // the step before it leads there
		}
		if shown.Active > 0 {
			shown.Steps[3].Path = api.ExplorerPath
		}
	}
	return pages.View{Template: "home", Title: "Overview", Data: shown}, nil
}

// FewCodes reports whether few recovery codes are left.
func (homeView) FewCodes(left int) bool { return left <= few }
