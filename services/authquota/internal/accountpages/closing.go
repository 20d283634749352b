package accountpages

import (
	"time"

	"opportunity.internal/pkg/pages"
)

// closeView is the data of the page that confirms closing the account.
type closeView struct {
	Pays  bool       // has a plan, which will be cancelled
	Until *time.Time // end of the paid period
}

func (p *Pages) closeForm(v *Visit) (pages.View, error) {
	shown := closeView{Pays: v.Person.Pays(v.Now)}
	if paid := v.Person.PaidAt(v.Now); paid != nil && paid.Live(v.Now) {
		shown.Until = paid.PaidUntil
	}
	return pages.View{Template: "security-close", Title: "Close the account", Data: shown}, nil
}

// closeAccount permanently closes the account. Its keys are rejected from the next request on.
func (p *Pages) closeAccount(v *Visit) (pages.View, error) {
	again, _ := p.closeForm(v)
	if given, _ := addressOf(v); given != v.Person.Email {
		return again.Wrong("email", "This is not the email address of the account."), nil
	}
	err := p.People.CloseAccount(v.Request.Context(), v.Person.Account)
	if wrong := inputError(err); wrong != "" {
		return again.Wrong("", wrong), nil
	}
	notice, err := applied("Your account is closed. Requests with its keys are rejected from now on.", err)
	if err != nil {
		return pages.View{}, err
	}
	v.Forget()
	return pages.View{Redirect: signInPath, Notice: notice}, nil
}
