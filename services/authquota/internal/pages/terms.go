package pages

import "opportunity.internal/services/authquota/internal/account"

// terms are the terms of use on a page.
type terms struct {
	Version string         // in effect
	Last    *account.Terms // accepted last, or nil
}

// Accepted reports whether the version in effect was accepted.
func (t terms) Accepted() bool { return t.Last != nil && t.Last.Version == t.Version }

func (s *Site) terms(v *visit) terms { return terms{s.TermsVersion, v.Person.Terms} }

// acceptance returns the reply of a form with the block "terms", and what is wrong with it. The form sends the version that it showed,
// so a version that took effect in the meantime is not accepted unseen.
func (s *Site) acceptance(v *visit) (account.Acceptance, []formError) {
	shown := v.PostForm("termsVersion")
	reply := account.Acceptance{Version: s.TermsVersion, Accepted: v.PostForm("terms") == "accepted" && shown == s.TermsVersion}
	switch {
	case reply.Accepted || s.terms(v).Accepted():
		return reply, nil
	case shown != "" && shown != s.TermsVersion:
		return reply, []formError{{"terms", "The terms of use have changed. Read and accept version " + s.TermsVersion + "."}}
	}
	return reply, []formError{{"terms", "Accept the terms of use to get a key."}}
}
