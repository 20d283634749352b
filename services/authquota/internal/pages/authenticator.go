package pages

import (
	"encoding/base64"
	"html/template"
	"net/http"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/recovery"
	"opportunity.internal/services/authquota/internal/totp"
)

// issuer is the name shown in authenticator apps.
const issuer = "Opportunity Data API"

// seedForm is the data for setting up an authenticator.
type seedForm struct {
	QR      template.URL // an image
	Grouped string       // the seed for typing
	URI     template.URL // for an app on the same phone
}

// newSeedForm returns the form with the browser's seed. It skips drawing the QR code for HEAD requests.
func (s *Site) newSeedForm(v *visit) (seedForm, account.NewSeed, error) {
	if v.Request.Method == http.MethodHead {
		return seedForm{}, account.NewSeed{}, nil
	}
	seed, err := s.Authenticators.NewSeed(v.Request.Context(), v.Session)
	if err != nil {
		return seedForm{}, seed, err
	}
	uri := totp.URI(seed.Seed, v.Person.Email, issuer)
	png, err := totp.QR(uri)
	return seedForm{
		QR:      template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(png)), //nolint:gosec // our own image
		Grouped: totp.Grouped(seed.Seed),
		URI:     template.URL(uri), //nolint:gosec // made of escaped parts
	}, seed, err
}

// errNewCode is the error for a wrong code during set-up. Often a QR code from an earlier page was scanned.
var errNewCode = formError{
	"code", "The code is wrong. Scan the QR code on this page; if you scanned an earlier one, delete its entry in the app first.",
}

// authenticatorForm shows the seed to a person without an authenticator.
func (s *Site) authenticatorForm(v *visit) (view, error) {
	page, _, err := s.authenticatorPage(v)
	return page, err
}

func (s *Site) authenticatorPage(v *visit) (view, account.NewSeed, error) {
	if v.Person.AuthenticatorConfirmed {
		return view{Redirect: "/account/sign-in/code"}, account.NewSeed{}, nil
	}
	form, seed, err := s.newSeedForm(v)
	return view{Template: "authenticator", Title: "Set up an authenticator", Data: form}, seed, err
}

// authenticator confirms the seed with its first code and shows the recovery codes once.
func (s *Site) authenticator(v *visit) (view, error) {
	again, seed, err := s.authenticatorPage(v)
	if err != nil || again.Redirect != "" {
		return again, err
	}
	ctx := v.Request.Context()
	if wait, err := s.Tries.Try(ctx, v.again()); err != nil || wait > 0 {
		return slower(v, again, wait), err
	}
	step, ok := totp.Step(seed.Seed, v.PostForm("code"), v.now)
	if !ok {
		again.Errors = []formError{errNewCode}
		return again, nil
	}
	codes, hashes := newCodes()
	admitted, err := s.Authenticators.ConfirmAuthenticator(ctx, v.Session, v.entry(), seed, step, hashes, v.again())
	if problem.Of(err).Code == problem.InvalidParameter {
		again.Errors = []formError{{"code", problem.Of(err).Message}}
		return again, nil
	}
	if err != nil {
		return view{}, err
	}
	v.admit(admitted)
	return view{Template: "recovery-codes", Title: "Your recovery codes", Data: recoveryCodes{Codes: codes, First: true}}, nil
}

func newCodes() (codes, hashes []string) {
	codes = recovery.Generate()
	for _, c := range codes {
		hashes = append(hashes, recovery.Hash(c))
	}
	return codes, hashes
}

// recoveryCodes is the data of the recovery codes page. It has the codes only just after they were created.
type recoveryCodes struct {
	Codes []string
	First bool // created with the authenticator
	Left  int
}

func (s *Site) recoveryCodesForm(v *visit) (view, error) {
	return view{
		Template: "recovery-codes", Title: "Recovery codes", Data: recoveryCodes{Left: v.Person.RecoveryCodesLeft},
	}, nil
}

// renewCodes creates new codes and shows them once.
func (s *Site) renewCodes(v *visit) (view, error) {
	codes, hashes := newCodes()
	err := s.Authenticators.RenewCodes(v.Request.Context(), v.Person.Account, hashes)
	return view{Template: "recovery-codes", Title: "Your recovery codes", Data: recoveryCodes{Codes: codes}}, err
}
