package accountpages

import (
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"

	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/credential"
	"opportunity.internal/services/authquota/internal/people"
)

type seedForm struct {
	QR      template.URL // an image
	Grouped string       // the seed for typing
	URI     template.URL // for an app on the same phone
}

func (p *Pages) authenticatorForm(v *Visit) (pages.View, error) {
	if v.Person.AuthenticatorConfirmed {
		return pages.View{Redirect: "/account/sign-in/code"}, nil
	}
	return p.showSeed(v, pages.View{Template: "authenticator", Title: "Set up an authenticator"})
}

func (p *Pages) replaceForm(v *Visit) (pages.View, error) {
	return p.showSeed(v, pages.View{Template: "security-authenticator", Title: "Move to another authenticator app"})
}

// showSeed adds the browser's seed to a page. It skips drawing the QR code for HEAD requests.
func (p *Pages) showSeed(v *Visit, page pages.View) (pages.View, error) {
	page.Data = seedForm{}
	if v.Request.Method == http.MethodHead {
		return page, nil
	}
	seed, err := p.People.NewSeed(v.ctx(), v.Session)
	if err != nil {
		return page, err
	}
	uri := credential.SeedURI(seed.Seed, v.Person.Email, siteName)
	png, err := credential.SeedQR(uri)
	image := "data:image/png;base64," + base64.StdEncoding.EncodeToString(png)
	page.Data = seedForm{
		QR:      template.URL(image), //nolint:gosec // our own
		Grouped: credential.Group(seed.Seed),
		URI:     template.URL(uri), //nolint:gosec // made of escaped parts
	}
	return page, err
}

// authenticator confirms the seed with its first code and shows the recovery codes once.
func (p *Pages) authenticator(v *Visit) (pages.View, error) {
	if v.Person.AuthenticatorConfirmed {
		return p.authenticatorForm(v)
	}
	return p.newCode(v, p.authenticatorForm, func(seed people.NewSeed, step int64) (pages.View, error) {
		codes, hashes := people.NewRecoveryCodes()
		admitted, err := p.People.ConfirmAuthenticator(v.ctx(), v.Session, v.Entry(), seed, step, hashes, inSession(v))
		if err == nil {
			v.Admit(admitted)
		}
		return newCodesPage(v, codes, true), err
	})
}

func (p *Pages) replace(v *Visit) (pages.View, error) {
	return p.newCode(v, p.replaceForm, func(seed people.NewSeed, step int64) (pages.View, error) {
		secret, err := p.People.ReplaceAuthenticator(v.ctx(), v.Session, seed, step, inSession(v))
		if err == nil {
			v.Renew(secret)
		}
		return pages.View{
			Redirect: securityPath,
			Notice:   "The new authenticator is set up, and all other browsers were signed out. The old one no longer works.",
		}, err
	})
}

// newCode calls use with the browser's seed and the step of its first code.
func (p *Pages) newCode(v *Visit, form handler,
	use func(seed people.NewSeed, step int64) (pages.View, error)) (pages.View, error) {
	return p.guess(v, form, []people.AttemptSubject{inSession(v)}, func() (string, pages.View, error) {
		seed, err := p.People.NewSeed(v.ctx(), v.Session)
		if err != nil {
			return "", pages.View{}, err
		}
		step, ok := credential.CodeStep(seed.Seed, v.PostForm("code"), v.Now)
		if ok {
			done, err := use(seed, step)
			return codeFactor, done, err
		}
		wrong := "The code is wrong. Enter the one that the app shows now for the QR code on this page."
		if seed.Created {
			wrong = "The code is wrong. The QR code on this page is new: if you scanned an earlier one, " +
				"delete its entry in the app, and scan this one."
		}
		return codeFactor, pages.View{}, problem.New(problem.InvalidParameter, "%s", wrong)
	}, func(string) error { return nil })
}

type codesView struct {
	Codes []string
	First bool // created with the authenticator
	Email string
	File  template.URL // a text file with the codes
	Left  int
}

// newCodesPage returns the page that shows new codes once, and has them as a file. first is set for
// the codes that come with an authenticator.
func newCodesPage(v *Visit, codes []string, first bool) pages.View {
	file := "Recovery codes of the Opportunity Data API\r\nAccount: " + v.Person.Email + "\r\nCreated: " +
		account.FormatTime(v.Now) + "\r\n\r\nEach code signs you in once if you do not have your authenticator.\r\n\r\n"
	for i, c := range codes {
		file += fmt.Sprintf("%2d. %s\r\n", i+1, c)
	}
	url := "data:text/plain;charset=utf-8;base64," + base64.StdEncoding.EncodeToString([]byte(file))
	return pages.View{
		Template: "recovery-codes", Title: "Your recovery codes", Data: codesView{
			Codes: codes, First: first, Email: v.Person.Email, File: template.URL(url), //nolint:gosec // base64
		},
	}
}

func (p *Pages) codesForm(v *Visit) (pages.View, error) {
	return pages.View{
		Template: "recovery-codes", Title: "Recovery codes", Data: codesView{Left: v.Person.RecoveryCodesLeft},
	}, nil
}

func (p *Pages) renewCodes(v *Visit) (pages.View, error) {
	codes, hashes := people.NewRecoveryCodes()
	err := p.People.RenewCodes(v.ctx(), v.Person.Account, hashes)
	return newCodesPage(v, codes, false), err
}
