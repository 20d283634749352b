package accountpages

import (
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/pages"
)

// route is a page and its form. Without show or submit, the path does not support GET or POST.
type route struct {
	path         string
	access       access
	show, submit handler
}

type handler func(*Visit) (pages.View, error)

type access int

const (
	open     access = iota // everyone; the visit has no person
	halfway                // only a person who has proven the password but not the second factor
	signedIn               // a person who has proven both and has an authenticator
	recent                 // signedIn, with a proof of a factor within people.RecentProof
)

// Paths of pages that several features lead to.
const (
	homePath     = "/account" // the home page, and the prefix of all others
	signInPath   = homePath + "/sign-in"
	keysPath     = homePath + "/keys"
	planPath     = homePath + "/plan"
	securityPath = homePath + "/security"
)

func (p *Pages) routes() []route {
	all := []route{
		{homePath, signedIn, p.home, nil},

		// signing up, in and out
		{"/account/sign-up", open, static(signUpForm), p.signUp},
		{"/account/sign-up/sent", open, static(sent("a link to choose a password. It works once, for 24 hours")), nil},
		{signInPath, open, p.signInForm, p.signIn},
		{"/account/sign-in/code", halfway, p.codeForm, p.code},
		{"/account/authenticator", halfway, p.authenticatorForm, p.authenticator},
		{"/account/forgot", open, static(forgotForm), p.forgot},
		{"/account/forgot/sent", open,
			static(sent("a link to choose a new password, if there is an account with that address. It works once, " +
				"for an hour")), nil},
		{"/account/lost-authenticator", halfway, p.lostForm, p.lost},
		{"/account/lost-authenticator/sent", open,
			static(sent("two links: one starts the three-day waiting period, the other cancels it. The first works for " +
				"24 hours")), nil},
		{"/account/sign-out", open, nil, p.signOut},

		// security
		{securityPath, signedIn, p.security, nil},
		{"/account/security/confirm", signedIn, p.proveForm, p.prove},
		{"/account/security/email", recent, p.emailForm, p.budgeted(p.email)},
		{"/account/security/email/keep", signedIn, nil, p.cancelAddressChange},
		{"/account/security/password", recent, static(passwordForm), p.budgeted(p.password)},
		{"/account/security/authenticator", recent, p.replaceForm, p.budgeted(p.replace)},
		{"/account/security/authenticator/keep", signedIn, nil, p.keepAuthenticator},
		{"/account/security/passkeys", recent, p.passkeyForm, p.budgeted(p.addPasskey)},
		{"/account/security/passkeys/remove", recent, nil, p.budgeted(p.removePasskey)},
		{"/account/security/sessions/end", recent, nil, p.endSession},
		{"/account/security/sessions/end-all", recent, nil, p.endSessions},
		{"/account/security/close", recent, p.closeForm, p.closeAccount},
		{"/account/recovery-codes", signedIn, p.codesForm, nil},
		{"/account/recovery-codes", recent, nil, p.budgeted(p.renewCodes)},

		// keys
		{keysPath, signedIn, p.listKeys, nil},
		{"/account/keys/:key", signedIn, p.showKey, nil},
		{"/account/keys/:key/name", signedIn, nil, p.budgeted(p.renameKey)},
		{"/account/keys/new", signedIn, p.askKey, p.budgeted(p.requestKey)},
		{"/account/keys/requests/:request/collect", recent, p.askCollect, p.budgeted(p.collectKey)},
		{"/account/keys/requests/:request/withdraw", signedIn, nil, p.budgeted(p.withdrawRequest)},
		{"/account/keys/:key/rotate", recent, p.askRotate, p.budgeted(p.rotateKey)},
		{"/account/keys/:key/revoke", recent, p.askRevoke, p.revokeKey},
		{"/account/keys/connect", recent, static(connectForm), p.connectKey},

		// explorer
		{api.ExplorerPath, signedIn, p.explorerList, nil},
		{explorerFormPath, signedIn, p.explorerForm, p.makeCall},

		// usage and notices
		{"/account/usage", signedIn, p.usage, nil},
		{"/account/usage.csv", signedIn, p.csv, nil},
		{requestsPath, signedIn, p.latestRequests, nil},
		{noticesPath, signedIn, p.noticesForm, p.budgeted(p.chooseNotices)},

		// plan
		{planPath, signedIn, p.plan, nil},
		{"/account/plan/upgrade", recent, p.askUpgrade, p.upgrade},
		{"/account/plan/portal", recent, nil, p.portal},
		{"/account/plan/cancel", recent, p.askCancel, p.cancel},
		{"/account/plan/resume", recent, nil, p.resume},
	}
	for _, page := range p.linkPages() {
		all = append(all, route{page.purpose.Page(), open, p.openLink(page), p.openLink(page)})
	}
	return all
}
