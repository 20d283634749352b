package pages

import (
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/link"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/throttle"
)

func (s *Site) forgotForm(*visit) (view, error) {
	return view{Template: "forgot", Title: "Forgotten password", Data: addressForm{}}, nil
}

// forgot sends a link if the address has an account. The page is the same in both cases.
func (s *Site) forgot(v *visit) (view, error) {
	form, _ := s.forgotForm(v)
	return s.sendLink(v, form, link.Reset, "/account/forgot/sent", func(l link.Fresh) error {
		return s.Resets.RequestReset(v.Request.Context(), l,
			mail.Message{To: l.Email, Template: "reset-password", Data: map[string]string{"link": s.linkTo("/account/reset", l)}})
	})
}

func (s *Site) forgotSent(*visit) (view, error) {
	return view{
		Template: "sent", Title: "Check your e-mail",
		Data: "a link to choose a new password, if there is an account with that address. It works once, for an hour",
	}, nil
}

func (s *Site) resetForm(v *visit) (view, error) {
	l, err := s.Links.Link(v.Request.Context(), v.token(), link.Reset)
	if problem.Of(err).Code == problem.NotFound {
		return gone("/account/forgot"), nil
	}
	return view{
		Template: "password", Title: "Choose a new password",
		Data: passwordForm{"/account/reset", v.token(), l.Email, "Change password"},
	}, err
}

// reset sets the new password. The person then signs in with it and the second factor.
func (s *Site) reset(v *visit) (view, error) {
	again, err := s.resetForm(v)
	form, ok := again.Data.(passwordForm)
	if err != nil || !ok {
		return again, err
	}
	hash, wrong, err := newPassword(v, form.Email)
	if err != nil || wrong != nil {
		again.Errors = wrong
		return again, err
	}
	err = s.Resets.ResetPassword(v.Request.Context(), form.Token, hash, v.entry(), throttle.OfAddress(form.Email, v.address()))
	if problem.Of(err).Code == problem.NotFound {
		return gone("/account/forgot"), nil
	}
	if err != nil {
		return view{}, err
	}
	v.forget()
	return view{Redirect: "/account/sign-in", Notice: "Your password was changed. Sign in with the new one."}, nil
}
