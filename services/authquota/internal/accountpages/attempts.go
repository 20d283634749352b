package accountpages

import (
	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/people"
)

// secondStep returns the subjects of an attempt at the second factor. A known browser is counted
// separately, so that an attacker who has only the password cannot delay the person.
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

// budgeted counts a form against the hourly budget of the account for acts that issue, mail or
// write. Revoking keys, ending sessions and closing the account have none: they must always work,
// and each needs something that was issued before.
func (p *Pages) budgeted(r route) route {
	handle := r.handle
	r.handle = func(v *Visit) (pages.View, error) {
		wait, err := p.People.CountAttempt(v.Request.Context(), people.ActsOf(v.Person.Account))
		if err == nil && wait > 0 {
			err = problem.New(problem.MinuteLimitReached, "This account has made too many changes in an hour.").RetryIn(wait)
		}
		if err != nil {
			return pages.View{}, err
		}
		return handle(v)
	}
	return r
}

func inSession(v *Visit) people.AttemptSubject { return people.AttemptsInSession(v.Session.ID) }

// mayMail counts a mail that anyone can request for an address, and reports whether to send it. The
// page is the same in both cases: the link in an earlier mail still works, and showing a delay
// would let an attacker block the form.
func (p *Pages) mayMail(v *Visit, purpose people.LinkPurpose, email string) (bool, error) {
	ctx, from := v.Request.Context(), people.FormsFrom(v.Address())
	account, _, err := p.People.Credentials(ctx, email)
	if err != nil {
		return false, err
	}
	if account != "" && purpose == people.LinkReset {
		from = people.ResetsFrom(v.Address())
	}
	wait, err := p.People.CountAttempt(ctx, people.MailsTo(string(purpose), email), from)
	if err == nil && purpose == people.LinkConfirm {
		p.signUps.count(wait == 0, v.Address(), v.Now, 1)
	}
	return wait == 0, err
}
