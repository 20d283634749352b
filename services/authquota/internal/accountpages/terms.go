package accountpages

import (
	"opportunity.internal/services/authquota/internal/account"
)

func (p *Pages) terms(v *Visit) Terms {
	return Terms{Version: p.TermsVersion, Last: v.Person.Terms}
}

// acceptance returns the reply of a form with the block "terms", and what is missing in it. The
// form sends the version that it showed, so a version that took effect in the meantime is not
// accepted unseen.
func (p *Pages) acceptance(v *Visit) (reply account.Acceptance, missing string) {
	shown := v.PostForm("termsVersion")
	reply = account.Acceptance{Version: p.TermsVersion, Accepted: v.PostForm("terms") == "accepted" && shown == p.TermsVersion}
	switch {
	case reply.Accepted || p.terms(v).Accepted():
		return reply, ""
	case shown != "" && shown != p.TermsVersion:
		return reply, "The terms of use have changed. Read and accept version " + p.TermsVersion + "."
	}
	return reply, "Accept the terms of use to get a key."
}

// Terms are the terms of use on a page.
type Terms struct {
	Version string         // in effect
	Last    *account.Terms // accepted last, or nil
}

// Accepted reports whether the version in effect was accepted.
func (t Terms) Accepted() bool { return t.Last != nil && t.Last.Version == t.Version }
