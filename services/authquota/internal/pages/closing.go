package pages

import (
	"context"
	"time"

	"opportunity.internal/services/authquota/internal/site"
)

// Closing closes accounts.
type Closing interface {
	CloseAccount(ctx context.Context, accountID string) error
}

// closeView is the data of the page that confirms closing the account.
type closeView struct {
	Pays  bool       // has a plan, which will be cancelled
	Until *time.Time // end of the paid period
}

func (p *Pages) closeForm(v *site.Visit) (site.View, error) {
	shown := closeView{Pays: v.Person.Pays(v.Now)}
	if paid := v.Person.PaidAt(v.Now); paid != nil && paid.Live(v.Now) {
		shown.Until = paid.PaidUntil
	}
	return site.View{Template: "security-close", Title: "Close the account", Data: shown}, nil
}

// closeAccount permanently closes the account. Its keys are rejected from the next request on.
func (p *Pages) closeAccount(v *site.Visit) (site.View, error) {
	again, _ := p.closeForm(v)
	if given, _ := addressOf(v); given != v.Person.Email {
		return again.Wrong("email", "This is not the e-mail address of the account."), nil
	}
	err := p.Closing.CloseAccount(v.Request.Context(), v.Person.Account)
	if wrong := inputError(err); wrong != "" {
		return again.Wrong("", wrong), nil
	}
	if err != nil {
		return site.View{}, err
	}
	v.Forget()
	return site.View{Redirect: site.SignIn, Notice: p.Apply.Notice(v, "Your account is closed. Requests with its keys are rejected from now on.")}, nil
}
