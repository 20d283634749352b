package accountpages

import (
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/people"
)

type requestForm struct {
	keys.RequestedKey

	Offer       keys.Offer // the keys that need no operator
	AutoApprove bool
	Terms       Terms
}

func (p *Pages) askKey(v *Visit) (pages.View, error) {
	offered, err := p.offer(v)
	return p.requestPage(v, keys.RequestedKey{Test: offered.Test}, offered), err
}

func (p *Pages) requestPage(v *Visit, filled keys.RequestedKey, offered keys.Offer) pages.View {
	return pages.View{
		Template: "key-ask", Title: "Request a key", Data: requestForm{filled, offered, p.AutoApprove, p.terms(v)},
	}
}

func (p *Pages) offer(v *Visit) (keys.Offer, error) {
	offered, err := p.Keys.Offer(v.ctx(), v.Person.Account)
	offered.Test = offered.Test && p.ApproveTest
	return offered, err
}

func (p *Pages) requestKey(v *Visit) (pages.View, error) {
	offered, err := p.offer(v)
	if err != nil {
		return pages.View{}, err
	}
	filled := keys.RequestedKey{
		Name: v.PostForm("name"), UseCase: v.PostForm("useCase"), Test: v.PostForm("kind") == "test",
	}
	again := p.requestPage(v, filled, offered)
	wanted := keys.RequestedKey{Test: filled.Test}
	if wanted.Test && !offered.Test {
		again = again.Wrong("", problem.Of(keys.ErrNoTestKey).Text())
	}
	if wanted.Name, err = keys.Name(filled.Name); err != nil {
		again = again.Wrong("name", badName(filled.Name, err))
	}
	if wanted.UseCase, err = keys.UseCase(filled.UseCase); err != nil {
		again = again.Wrong("useCase",
			badText("The use case", filled.UseCase, "Tell us what you will use the data for.", err))
	}
	accepted, missing := p.acceptance(v)
	if missing != "" {
		again = again.Wrong("terms", missing)
	}
	if len(again.Errors) > 0 {
		return again, nil
	}
	if wanted.Test {
		wait, err := p.People.CountAttempt(v.ctx(), people.TestKeysFrom.Of(v.network()))
		if err != nil {
			return pages.View{}, err
		}
		wanted.Held = wait > 0
	}
	created, err := p.Keys.RequestKey(v.ctx(), v.Person.Account, wanted, accepted, p.AutoApprove)
	switch {
	case problem.Of(err).Code == problem.InvalidParameter:
		return again.Wrong("", problem.Of(err).Text()), nil
	case err != nil:
		return pages.View{}, err
	case created.State == keys.Approved:
		return pages.View{Redirect: collectPath(created.ID)}, nil
	}
	return pages.View{
		Redirect: keysPath, Notice: "Your request was sent. You get an email when it is approved or declined.",
	}, nil
}

func collectPath(request string) string { return "/account/keys/requests/" + request + "/collect" }

func (p *Pages) ownRequest(v *Visit) (keys.Request, error) {
	requests, err := p.Keys.OwnRequests(v.ctx(), v.Person.Account)
	if err != nil {
		return keys.Request{}, err
	}
	for _, r := range requests {
		if r.ID == v.Param("request") {
			return r, nil
		}
	}
	return keys.Request{}, problem.NoSuch("request")
}

type collection struct {
	keys.Request

	Terms Terms
}

func (p *Pages) askCollect(v *Visit) (pages.View, error) {
	r, err := p.ownRequest(v)
	if err == nil && r.State != keys.Approved {
		err = keys.NotOpen(r.State)
	}
	return pages.View{Template: "key-collect", Title: "Get your key", Data: collection{r, p.terms(v)}}, err
}

func (p *Pages) collectKey(v *Visit) (pages.View, error) {
	accepted, missing := p.acceptance(v)
	if missing != "" {
		again, err := p.askCollect(v)
		return again.Wrong("terms", missing), err
	}
	r, err := p.ownRequest(v)
	if err != nil && problem.Of(err).Code != problem.NotFound { // Collect explains why a request is not found
		return pages.View{}, err
	}
	secret, record := keys.Generate(r.Test, p.Peppers)
	key, err := p.Keys.Collect(v.ctx(), v.Person.Account, v.Param("request"), accepted, record)
	return pages.View{Template: "key-new", Title: "Your key", Data: newKey{Key: key, Secret: secret.Reveal()}}, err
}

func (p *Pages) withdrawRequest(v *Visit) (pages.View, error) {
	err := p.Keys.Withdraw(v.ctx(), v.Person.Account, v.Param("request"))
	return pages.View{Redirect: keysPath, Notice: "The request was withdrawn."}, err
}

func (p *Pages) terms(v *Visit) Terms {
	return Terms{Version: p.TermsVersion, Last: v.Person.Terms}
}

// acceptance returns the reply of a form with the block "terms", and what is missing in it. The
// form sends the version that it showed, so a version that took effect in the meantime is not
// accepted unseen.
func (p *Pages) acceptance(v *Visit) (reply account.Acceptance, missing string) {
	shown := v.PostForm("termsVersion")
	reply = account.Acceptance{
		Version: p.TermsVersion, Accepted: v.PostForm("terms") == "accepted" && shown == p.TermsVersion,
	}
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
	Version string             // in effect
	Last    *api.AcceptedTerms // accepted last, or nil
}

// Accepted reports whether the version in effect was accepted.
func (t Terms) Accepted() bool { return t.Last != nil && t.Last.Version == t.Version }
