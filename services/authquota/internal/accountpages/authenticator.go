package accountpages

import (
	"encoding/base64"
	"html/template"
	"net/http"

	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/credential"
	"opportunity.internal/services/authquota/internal/people"
)

// seedForm is the data for setting up an authenticator.
type seedForm struct {
	QR      template.URL // an image
	Grouped string       // the seed for typing
	URI     template.URL // for an app on the same phone
}

// newSeedForm returns the form with the browser's seed. It skips drawing the QR code for HEAD
// requests.
func (p *Pages) newSeedForm(v *Visit) (seedForm, people.NewSeed, error) {
	if v.Request.Method == http.MethodHead {
		return seedForm{}, people.NewSeed{}, nil
	}
	seed, err := p.People.NewSeed(v.Request.Context(), v.Session)
	if err != nil {
		return seedForm{}, seed, err
	}
	uri := credential.SeedURI(seed.Seed, v.Person.Email, issuer)
	png, err := credential.SeedQR(uri)
	return seedForm{
		QR:      template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(png)), //nolint:gosec // our own image
		Grouped: credential.GroupSeed(seed.Seed),
		URI:     template.URL(uri), //nolint:gosec // made of escaped parts
	}, seed, err
}

// wrongNewCode explains a wrong code during set-up.
func wrongNewCode(seed people.NewSeed) string {
	if seed.Created {
		return "The code is wrong. The QR code on this page is new: if you scanned an earlier one, delete its entry in the app, and scan this one."
	}
	return "The code is wrong. Enter the one that the app shows now for the QR code on this page."
}

// authenticatorForm shows the seed to a person without an authenticator.
func (p *Pages) authenticatorForm(v *Visit) (pages.View, error) {
	page, _, err := p.authenticatorPage(v)
	return page, err
}

func (p *Pages) authenticatorPage(v *Visit) (pages.View, people.NewSeed, error) {
	if v.Person.AuthenticatorConfirmed {
		return pages.View{Redirect: "/account/sign-in/code"}, people.NewSeed{}, nil
	}
	form, seed, err := p.newSeedForm(v)
	return pages.View{Template: "authenticator", Title: "Set up an authenticator", Data: form}, seed, err
}

// authenticator confirms the seed with its first code and shows the recovery codes once.
func (p *Pages) authenticator(v *Visit) (pages.View, error) {
	again, seed, err := p.authenticatorPage(v)
	if err != nil || again.Redirect != "" {
		return again, err
	}
	ctx := v.Request.Context()
	if wait, err := p.People.CountAttempt(ctx, inSession(v)); err != nil || wait > 0 {
		return again.TooMany(wait), err
	}
	step, ok := credential.CodeStep(seed.Seed, v.PostForm("code"), v.Now)
	if !ok {
		return again.Wrong("code", wrongNewCode(seed)), nil
	}
	codes, hashes := people.NewRecoveryCodes()
	admitted, err := p.People.ConfirmAuthenticator(ctx, v.Session, v.Entry(), seed, step, hashes, inSession(v))
	if problem.Of(err).Code == problem.InvalidParameter {
		return again.Wrong("code", problem.Of(err).Text()), nil
	}
	if err != nil {
		return pages.View{}, err
	}
	v.Admit(admitted)
	return newCodesPage(v, codes, true), nil
}
