package accountpages

import (
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"time"

	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/credential"
	"opportunity.internal/services/authquota/internal/people"
)

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

func wrongNewCode(seed people.NewSeed) string {
	if seed.Created {
		return "The code is wrong. The QR code on this page is new: if you scanned an earlier one, delete its entry in the app, and scan this one."
	}
	return "The code is wrong. Enter the one that the app shows now for the QR code on this page."
}

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

func (p *Pages) replaceForm(v *Visit) (pages.View, error) {
	page, _, err := p.replacePage(v)
	return page, err
}

func (p *Pages) replacePage(v *Visit) (pages.View, people.NewSeed, error) {
	form, seed, err := p.newSeedForm(v)
	return pages.View{Template: "security-authenticator", Title: "Move to another authenticator app", Data: form}, seed, err
}

func (p *Pages) replace(v *Visit) (pages.View, error) {
	ctx := v.Request.Context()
	again, seed, err := p.replacePage(v)
	if err != nil {
		return pages.View{}, err
	}
	if wait, err := p.People.CountAttempt(ctx, inSession(v)); err != nil || wait > 0 {
		return again.TooMany(wait), err
	}
	step, ok := credential.CodeStep(seed.Seed, v.PostForm("code"), v.Now)
	if !ok {
		return again.Wrong("code", wrongNewCode(seed)), nil
	}
	secret, err := p.People.ReplaceAuthenticator(ctx, v.Session, seed, step, inSession(v))
	if wrong := inputError(err); wrong != "" {
		return again.Wrong("code", wrong), nil
	}
	if err != nil {
		return pages.View{}, err
	}
	v.Renew(secret)
	return pages.View{Redirect: securityPath, Notice: "The new authenticator is set up, and all other browsers were signed out. The old one no longer works."}, nil
}

type codesView struct {
	Codes []string
	First bool // created with the authenticator
	Email string
	Left  int
}

// newCodesPage returns the page that shows new codes once. first is set for the codes that come
// with an authenticator.
func newCodesPage(v *Visit, codes []string, first bool) pages.View {
	return pages.View{
		Template: "recovery-codes", Title: "Your recovery codes", Data: codesView{Codes: codes, First: first, Email: v.Person.Email},
	}
}

func (p *Pages) codesForm(v *Visit) (pages.View, error) {
	return pages.View{Template: "recovery-codes", Title: "Recovery codes", Data: codesView{Left: v.Person.RecoveryCodesLeft}}, nil
}

func (p *Pages) renewCodes(v *Visit) (pages.View, error) {
	codes, hashes := people.NewRecoveryCodes()
	err := p.People.RenewCodes(v.Request.Context(), v.Person.Account, hashes)
	return newCodesPage(v, codes, false), err
}

// downloadCodes returns the codes of the form as a file. Only their hashes are stored, so the page
// that shows them sends them back.
func (p *Pages) downloadCodes(v *Visit) (pages.View, error) {
	codes := v.PostFormArray("code")
	hashes := make([]string, len(codes))
	for i, c := range codes {
		hashes[i] = people.HashRecoveryCode(c)
	}
	unused, err := false, error(nil)
	if len(codes) == people.RecoveryCodeCount {
		unused, err = p.People.CodesUnused(v.Request.Context(), v.Person.Account, hashes)
	}
	if err == nil && !unused {
		err = problem.New(problem.InvalidParameter, "These recovery codes are no longer valid. Create new ones on the security page.")
	}
	return pages.View{
		Type: "text/plain; charset=utf-8", Name: "opportunity-recovery-codes.txt",
		Stream: func(w io.Writer) error { return writeCodes(w, v.Person.Email, codes, v.Now) },
	}, err
}

func writeCodes(w io.Writer, email string, codes []string, now time.Time) error {
	_, err := fmt.Fprintf(w, "Recovery codes of the Opportunity Data API\r\nAccount: %s\r\nDownloaded: %s\r\n\r\n"+
		"Each code signs you in once if you do not have your authenticator.\r\n\r\n", email, now.Format("2 January 2006, 15:04 UTC"))
	for i, c := range codes {
		if err == nil {
			_, err = fmt.Fprintf(w, "%2d. %s\r\n", i+1, c)
		}
	}
	return err
}
