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

// issuer is what an app calls us.
const issuer = "Opportunity Data API"

// seedForm shows the seed of an authenticator that is being set up.
type seedForm struct {
	QR      template.URL // an image
	Grouped string       // the seed for typing
	URI     template.URL // for an app on the same phone
}

// newSeedForm shows what this browser's app is to scan. Who asks for headers alone sees nothing, so that nothing is drawn.
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
		URI:     template.URL(uri), //nolint:gosec // made of parts that are escaped
	}, seed, err
}

// errNewCode is what is wrong with a code of an app that is being set up: mostly, an earlier page was scanned.
var errNewCode = formError{
	"code", "The code is not right. The app must show the code of the QR code on this page: if you have scanned another one, delete that one and scan this.",
}

// authenticatorForm shows the seed to who has no authenticator yet.
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

// authenticator confirms the seed by its first code and shows the recovery codes, this once.
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

// recoveryCodes is the page of the codes: with them just after they were made, without them at any other time.
type recoveryCodes struct {
	Codes []string
	First bool // made with the authenticator
	Left  int
}

func (s *Site) recoveryCodesForm(v *visit) (view, error) {
	return view{
		Template: "recovery-codes", Title: "Recovery codes", Data: recoveryCodes{Left: v.Person.RecoveryCodesLeft},
	}, nil
}

// renewCodes makes new codes and shows them, this once.
func (s *Site) renewCodes(v *visit) (view, error) {
	codes, hashes := newCodes()
	err := s.Authenticators.RenewCodes(v.Request.Context(), v.Person.Account, hashes)
	return view{Template: "recovery-codes", Title: "Your recovery codes", Data: recoveryCodes{Codes: codes}}, err
}
