package pages

import (
	"opportunity.internal/services/authquota/internal/link"
	"opportunity.internal/services/authquota/internal/session"
	"opportunity.internal/services/authquota/internal/throttle"
)

// secondStep is who tries the second step of signing in. A browser that the account knows is counted alone, so that nobody who has
// only the password can keep its person out.
func (s *Site) secondStep(v *visit) ([]throttle.Subject, error) {
	device := session.Hash(v.cookie(deviceCookie))
	known, err := s.Tries.KnownDevice(v.Request.Context(), v.Person.Account, device)
	if known || err != nil {
		return []throttle.Subject{throttle.OfDevice(v.Person.Account, device)}, err
	}
	return []throttle.Subject{
		throttle.OfSecondStep(v.Person.Account, v.address()), throttle.OfAccount(v.Person.Account), throttle.FromNetwork(v.address()),
	}, nil
}

// again is who is asked for something again after coming in.
func (v *visit) again() throttle.Subject { return throttle.OfSession(v.Session.ID) }

// mayMail counts a mail that anybody can have sent to an address, and reports whether it goes out. Whoever asked hears the same in both
// cases: an earlier mail has a link that still works, and a wait would let anybody keep others from the form.
func (s *Site) mayMail(v *visit, purpose link.Purpose, email string) (bool, error) {
	wait, err := s.Tries.Try(v.Request.Context(), throttle.MailTo(string(purpose), email), throttle.FormsFrom(v.address()))
	return wait == 0, err
}
