package pages

import (
	"context"
	"time"

	"opportunity.internal/services/authquota/internal/account"
)

// Overview reads the summary for the home page.
type Overview interface {
	Overview(ctx context.Context, accountID string) (account.Overview, error)
}

// homeView is the data of the home page.
type homeView struct {
	account.Overview

	Offer   offer
	Today   allowance
	MaxKeys int
	Soon    bool // a key expires within soon
	Steps   []step
	Public  string
}

// step is one of the first steps with a new account.
type step struct {
	Done bool
	Text string
	Path string // page for this step; empty if there is none
}

// soon is the time before expiry when the home page shows a notice about a key.
const soon = 30 * 24 * time.Hour

// few is the number of recovery codes below which the home page shows a notice.
const few = 3

func (s *Site) home(v *visit) (view, error) {
	today, err := s.allowance(v)
	if err != nil {
		return view{}, err
	}
	shown := homeView{Offer: s.offer(v.Person.Tier), Today: today, MaxKeys: account.MaxActive, Public: s.PublicURL}
	if shown.Overview, err = s.Overview.Overview(v.Request.Context(), v.Person.Account); err != nil {
		return view{}, err
	}
	shown.Soon = shown.Expiring != nil && shown.Expiring.Sub(v.now) <= soon
	if !shown.Called && today.Used == 0 {
		requested := shown.Active > 0 || shown.Asked > 0 || shown.Ready > 0
		shown.Steps = []step{
			{true, "Set up your authenticator", ""},
			{requested, "Request a key and say what it is for", "/account/keys"},
			{shown.Active > 0, "Collect the key once it is approved", "/account/keys"},
			{false, "Send the first request", ""},
		}
		if !requested {
			shown.Steps[2].Path = "" // the step before it leads there
		}
	}
	return view{Template: "home", Title: "Overview", Data: shown}, nil
}

// FewCodes reports whether few recovery codes are left.
func (homeView) FewCodes(left int) bool { return left <= few }
