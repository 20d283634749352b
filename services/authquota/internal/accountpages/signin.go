package accountpages

import (
	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/credential"
	"opportunity.internal/services/authquota/internal/people"
)

func (p *Pages) signInForm(v *Visit) (pages.View, error) {
	if secret := v.SessionSecret(); secret != "" {
		if current, _, err := p.People.Session(v.ctx(), secret); err == nil && current.Stage == people.Full {
			return pages.View{Redirect: v.Next()}, nil
		}
	}
	return pages.View{Template: "sign-in", Title: "Sign in", Data: addressForm{Next: v.Onward()}}, nil
}

// signIn verifies the password. An unknown address has the same response and timing as a wrong
// password.
func (p *Pages) signIn(v *Visit) (pages.View, error) {
	ctx := v.ctx()
	email, valid := people.Email(v.PostForm("email"))
	again := pages.View{Template: "sign-in", Title: "Sign in", Data: addressForm{email, v.Onward()}}
	if !valid {
		return again.Wrong("email", noAddress), nil
	}
	address, network := people.AttemptsOnAddress.Of(v.network(), email), people.AttemptsFromNetwork.Of(v.network())
	if wait, err := p.People.CountAttempt(ctx, address, network); err != nil || wait > 0 {
		return again.TooMany(wait), err
	}
	id, hash, err := p.People.Credentials(ctx, email)
	if err != nil {
		return pages.View{}, err
	}
	given := v.PostForm("password")
	ok, outdated, err := credential.VerifyPassword(ctx, given, hash) // also verifies the empty hash of an unknown address
	if err != nil {
		return pages.View{}, problem.Unavailable(err)
	}
	if !ok || id == "" {
		return again.Wrong("email", "The email address or the password is wrong."),
			p.People.SignInFailed(ctx, id, "password", v.Client(), address)
	}
	if outdated {
		if better, err := credential.HashPassword(ctx, given); err != nil {
			return pages.View{}, problem.Unavailable(err)
		} else if err := p.People.Rehash(ctx, id, hash, better); err != nil {
			return pages.View{}, err
		}
	}
	admitted, err := p.People.SignInHalfway(ctx, id, v.Entry(), address, network)
	v.Admit(admitted)
	return pages.View{Redirect: pages.WithNext("/account/sign-in/code", v.Onward())}, err
}

func (p *Pages) codeForm(v *Visit) (pages.View, error) {
	if !v.Person.AuthenticatorConfirmed {
		return pages.View{Redirect: "/account/authenticator"}, nil
	}
	options, err := p.beginProof(v)
	return pages.View{Template: "code", Title: "Second step", Data: proofForm{v.Onward(), options}}, err
}

// code completes signing in with a second factor.
func (p *Pages) code(v *Visit) (pages.View, error) {
	if !v.Person.AuthenticatorConfirmed {
		return p.codeForm(v)
	}
	tried, err := p.secondStep(v)
	if err != nil {
		return pages.View{}, err
	}
	return p.guess(v, p.codeForm, tried, func() (factor string, done pages.View, err error) {
		by, factor, err := p.secondFactor(v)
		if err == nil {
			var admitted people.Admitted
			admitted, err = p.People.SignIn(v.ctx(), v.Session, v.Entry(), by, tried...)
			v.Admit(admitted)
		}
		return factor, pages.View{Redirect: v.Next()}, err
	}, func(factor string) error {
		return p.People.SignInFailed(v.ctx(), v.Person.Account, factor, v.Client(), tried[0])
	})
}

// signOut ends the browser's session, even a halfway one.
func (p *Pages) signOut(v *Visit) (pages.View, error) {
	out := pages.View{Redirect: signInPath, Notice: "You are signed out."}
	current, _, err := p.People.Session(v.ctx(), v.SessionSecret())
	if err != nil && problem.Of(err).Code != problem.NotFound {
		return out, err
	}
	v.Forget()
	if err != nil {
		return out, nil // it has ended already
	}
	err = p.People.EndSession(v.ctx(), current.Account, current.ID)
	if problem.Of(err).Code == problem.NotFound {
		err = nil // ended by a concurrent request
	}
	return out, err
}
