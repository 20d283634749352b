package pages

import (
	"opportunity.internal/services/authquota/internal/people"
)

// secondStep returns the subjects of an attempt at the second factor. A known browser is counted separately, so that an
// attacker who has only the password cannot delay the person.
func (p *Pages) secondStep(v *Visit) ([]people.AttemptSubject, error) {
	device := people.HashSecret(v.DeviceSecret())
	known, err := p.People.KnownDevice(v.Request.Context(), v.Person.Account, device)
	if known || err != nil {
		return []people.AttemptSubject{people.AttemptsOfDevice(v.Person.Account, device)}, err
	}
	return []people.AttemptSubject{
		people.AttemptsOnSecondStep(v.Person.Account, v.Address()), people.AttemptsOnAccount(v.Person.Account), people.AttemptsFromNetwork(v.Address()),
	}, nil
}

// inSession returns the subject of confirmations within the session.
func inSession(v *Visit) people.AttemptSubject { return people.AttemptsInSession(v.Session.ID) }

// mayMail counts a mail that anyone can request for an address, and reports whether to send it. The page is the same in both
// cases: the link in an earlier mail still works, and showing a delay would let an attacker block the form.
func (p *Pages) mayMail(v *Visit, purpose people.LinkPurpose, email string) (bool, error) {
	wait, err := p.People.CountAttempt(v.Request.Context(), people.MailsTo(string(purpose), email), people.FormsFrom(v.Address()))
	return wait == 0, err
}
