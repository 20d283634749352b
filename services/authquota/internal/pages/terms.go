package pages

import (
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/site"
)

func (p *Pages) terms(v *site.Visit) site.Terms {
	return site.Terms{Version: p.TermsVersion, Last: v.Person.Terms}
}

// acceptance returns the reply of a form with the block "terms", and what is missing in it. The form sends the version that it
// showed, so a version that took effect in the meantime is not accepted unseen.
func (p *Pages) acceptance(v *site.Visit) (reply account.Acceptance, missing string) {
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
