package pages

import (
	"opportunity.internal/services/authquota/internal/link"
	"opportunity.internal/services/authquota/internal/session"
	"opportunity.internal/services/authquota/internal/throttle"
)

// secondStep returns the subjects of an attempt at the second factor. A known browser is counted separately, so that an
// attacker who has only the password cannot delay the person.
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

// again returns the subject of confirmations within the session.
func (v *visit) again() throttle.Subject { return throttle.OfSession(v.Session.ID) }

// mayMail counts a mail that anyone can request for an address, and reports whether to send it. The page is the same in both
// cases: the link in an earlier mail still works, and showing a delay would let an attacker block the form.
func (s *Site) mayMail(v *visit, purpose link.Purpose, email string) (bool, error) {
	wait, err := s.Tries.Try(v.Request.Context(), throttle.MailTo(string(purpose), email), throttle.FormsFrom(v.address()))
	return wait == 0, err
}
