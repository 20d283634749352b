package accountpages

import (
	"net/http"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/pages"
)

type route struct {
	method, path string
	access       access
	handle       handler

	maxBody int64 // of a request, in bytes; 0 means api.MaxForm
}

type handler func(*Visit) (pages.View, error)

func get(path string, level access, handle handler) route {
	return route{method: http.MethodGet, path: path, access: level, handle: handle}
}

func post(path string, level access, handle handler) route {
	return route{method: http.MethodPost, path: path, access: level, handle: handle}
}

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
	makeCall := post(explorerFormPath, signedIn, p.makeCall)
	makeCall.maxBody = api.MaxExplorerResult
	return []route{
		get(homePath, signedIn, p.home),

		// signing up, in and out
		get("/account/sign-up", open, p.signUpForm),
		post("/account/sign-up", open, p.signUp),
		get("/account/sign-up/sent", open, sent("a link to choose a password. It works once, for 24 hours")),
		get("/account/confirm", open, p.confirmForm),
		post("/account/confirm", open, p.confirm),
		get("/account/sign-in", open, p.signInForm),
		post("/account/sign-in", open, p.signIn),
		get("/account/sign-in/code", halfway, p.codeForm),
		post("/account/sign-in/code", halfway, p.code),
		post("/account/sign-in/passkey", halfway, p.passkeyStep),
		get("/account/authenticator", halfway, p.authenticatorForm),
		post("/account/authenticator", halfway, p.authenticator),
		get("/account/forgot", open, p.forgotForm),
		post("/account/forgot", open, p.forgot),
		get("/account/forgot/sent", open,
			sent("a link to choose a new password, if there is an account with that address. It works once, for an hour")),
		get("/account/reset", open, p.resetForm),
		post("/account/reset", open, p.reset),
		get("/account/lost-authenticator", halfway, p.lostForm),
		post("/account/lost-authenticator", halfway, p.lost),
		get("/account/lost-authenticator/sent", open,
			sent("two links: one starts the three-day waiting period, the other cancels it. The first works for 24 hours")),
		get("/account/lost-authenticator/confirm", open, p.lostConfirmForm),
		post("/account/lost-authenticator/confirm", open, p.lostConfirm),
		get("/account/lost-authenticator/cancel", open, p.lostCancelForm),
		post("/account/lost-authenticator/cancel", open, p.lostCancel),
		post("/account/sign-out", open, p.signOut),

		// security
		get("/account/security", signedIn, p.security),
		get("/account/security/confirm", signedIn, p.proveForm),
		post("/account/security/confirm", signedIn, p.prove),
		get("/account/security/email", recent, p.emailForm),
		p.budgeted(post("/account/security/email", recent, p.email)),
		post("/account/security/email/keep", signedIn, p.cancelAddressChange),
		get("/account/old-address", open, p.oldAddressForm),
		post("/account/old-address", open, p.oldAddress),
		get("/account/new-address", open, p.newAddressForm),
		post("/account/new-address", open, p.newAddress),
		get("/account/security/password", recent, p.passwordForm),
		p.budgeted(post("/account/security/password", recent, p.password)),
		get("/account/security/authenticator", recent, p.replaceForm),
		p.budgeted(post("/account/security/authenticator", recent, p.replace)),
		post("/account/security/authenticator/keep", signedIn, p.keepAuthenticator),
		get("/account/security/passkeys", recent, p.passkeyForm),
		p.budgeted(post("/account/security/passkeys", recent, p.addPasskey)),
		p.budgeted(post("/account/security/passkeys/remove", recent, p.removePasskey)),
		post("/account/security/sessions/end", recent, p.endSession),
		post("/account/security/sessions/end-all", recent, p.endSessions),
		get("/account/security/close", recent, p.closeForm),
		post("/account/security/close", recent, p.closeAccount),
		get("/account/recovery-codes", signedIn, p.codesForm),
		p.budgeted(post("/account/recovery-codes", recent, p.renewCodes)),
		post("/account/recovery-codes/download", signedIn, p.downloadCodes),

		// keys
		get("/account/keys", signedIn, p.listKeys),
		get("/account/keys/:key", signedIn, p.showKey),
		p.budgeted(post("/account/keys/:key/name", signedIn, p.renameKey)),
		get("/account/keys/new", signedIn, p.askKey),
		p.budgeted(post("/account/keys/new", signedIn, p.requestKey)),
		get("/account/keys/requests/:request/collect", recent, p.askCollect),
		p.budgeted(post("/account/keys/requests/:request/collect", recent, p.collectKey)),
		p.budgeted(post("/account/keys/requests/:request/withdraw", signedIn, p.withdrawRequest)),
		get("/account/keys/:key/rotate", recent, p.askRotate),
		p.budgeted(post("/account/keys/:key/rotate", recent, p.rotateKey)),
		get("/account/keys/:key/revoke", recent, p.askRevoke),
		post("/account/keys/:key/revoke", recent, p.revokeKey),
		get("/account/keys/connect", recent, p.askConnect),
		post("/account/keys/connect", recent, p.connectKey),

		// explorer
		get(api.ExplorerPath, signedIn, p.explorerList),
		get(explorerFormPath, signedIn, p.explorerForm),
		makeCall,

		// usage and notices
		get("/account/usage", signedIn, p.usage),
		get("/account/usage.csv", signedIn, p.csv),
		get(requestsPath, signedIn, p.latestRequests),
		get(noticesPath, signedIn, p.noticesForm),
		p.budgeted(post(noticesPath, signedIn, p.chooseNotices)),

		// plan
		get("/account/plan", signedIn, p.plan),
		get("/account/plan/upgrade", recent, p.askUpgrade),
		post("/account/plan/upgrade", recent, p.upgrade),
		post("/account/plan/portal", recent, p.portal),
		get("/account/plan/cancel", recent, p.askCancel),
		post("/account/plan/cancel", recent, p.cancel),
		post("/account/plan/resume", recent, p.resume),
	}
}
