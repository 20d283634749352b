package pages

import (
	"context"
	"time"

	"opportunity.internal/services/authquota/internal/people/link"
	"opportunity.internal/services/authquota/internal/people/session"
	"opportunity.internal/services/authquota/internal/people/throttle"
	"opportunity.internal/services/authquota/internal/site"
)

// Attempts delays guessing.
type Attempts interface {
	// CountAttempt counts an attempt. If the subject must wait, it returns the delay.
	CountAttempt(ctx context.Context, subjects ...throttle.Subject) (wait time.Duration, err error)
	// KnownDevice reports whether the browser with this secret's hash has signed in to the account before.
	KnownDevice(ctx context.Context, accountID, hash string) (bool, error)
}

// secondStep returns the subjects of an attempt at the second factor. A known browser is counted separately, so that an
// attacker who has only the password cannot delay the person.
func (p *Pages) secondStep(v *site.Visit) ([]throttle.Subject, error) {
	device := session.Hash(v.DeviceSecret())
	known, err := p.Attempts.KnownDevice(v.Request.Context(), v.Person.Account, device)
	if known || err != nil {
		return []throttle.Subject{throttle.OfDevice(v.Person.Account, device)}, err
	}
	return []throttle.Subject{
		throttle.OfSecondStep(v.Person.Account, v.Address()), throttle.OfAccount(v.Person.Account), throttle.FromNetwork(v.Address()),
	}, nil
}

// inSession returns the subject of confirmations within the session.
func inSession(v *site.Visit) throttle.Subject { return throttle.OfSession(v.Session.ID) }

// mayMail counts a mail that anyone can request for an address, and reports whether to send it. The page is the same in both
// cases: the link in an earlier mail still works, and showing a delay would let an attacker block the form.
func (p *Pages) mayMail(v *site.Visit, purpose link.Purpose, email string) (bool, error) {
	wait, err := p.Attempts.CountAttempt(v.Request.Context(), throttle.MailTo(string(purpose), email), throttle.FormsFrom(v.Address()))
	return wait == 0, err
}
