package pages

import "net/http"

// access is the access level of a page.
type access int

const (
	open     access = iota // everyone; the visit has no person
	halfway                // only a person who has proven the password but not the second factor
	signedIn               // a person who has proven both and has an authenticator
	recent                 // signedIn, with a proof of a factor within session.RecentProof
)

// handler handles a request. page renders its view or error.
type handler func(s *Site, v *visit) (view, error)

type route struct {
	method string
	path   string
	access access
	handle handler
}

const (
	get  = http.MethodGet
	post = http.MethodPost
)

// routes returns all pages with their access levels.
func routes() []route {
	return []route{
		{get, "/account", signedIn, (*Site).home},

		// signing up, in and out
		{get, "/account/sign-up", open, (*Site).signUpForm},
		{post, "/account/sign-up", open, (*Site).signUp},
		{get, "/account/sign-up/sent", open, (*Site).signUpSent},
		{get, "/account/confirm", open, (*Site).confirmForm},
		{post, "/account/confirm", open, (*Site).confirm},
		{get, "/account/sign-in", open, (*Site).signInForm},
		{post, "/account/sign-in", open, (*Site).signIn},
		{get, "/account/sign-in/code", halfway, (*Site).codeForm},
		{post, "/account/sign-in/code", halfway, (*Site).code},
		{get, "/account/authenticator", halfway, (*Site).authenticatorForm},
		{post, "/account/authenticator", halfway, (*Site).authenticator},
		{get, "/account/recovery-codes", signedIn, (*Site).recoveryCodesForm},
		{post, "/account/recovery-codes", recent, (*Site).renewCodes},
		{get, "/account/forgot", open, (*Site).forgotForm},
		{post, "/account/forgot", open, (*Site).forgot},
		{get, "/account/forgot/sent", open, (*Site).forgotSent},
		{get, "/account/reset", open, (*Site).resetForm},
		{post, "/account/reset", open, (*Site).reset},
		{get, "/account/lost-authenticator", halfway, (*Site).lostForm},
		{post, "/account/lost-authenticator", halfway, (*Site).lost},
		{get, "/account/lost-authenticator/sent", open, (*Site).lostSent},
		{get, "/account/lost-authenticator/confirm", open, (*Site).lostConfirmForm},
		{post, "/account/lost-authenticator/confirm", open, (*Site).lostConfirm},
		{get, "/account/lost-authenticator/cancel", open, (*Site).lostCancelForm},
		{post, "/account/lost-authenticator/cancel", open, (*Site).lostCancel},
		{post, "/account/security/authenticator/keep", signedIn, (*Site).keepAuthenticator},
		{post, "/account/sign-in/passkey", halfway, (*Site).passkeyStep},
		{post, "/account/sign-out", open, (*Site).signOut},

		// security
		{get, "/account/security", signedIn, (*Site).security},
		{get, "/account/security/confirm", signedIn, (*Site).proveForm},
		{post, "/account/security/confirm", signedIn, (*Site).prove},
		{get, "/account/security/email", recent, (*Site).emailForm},
		{post, "/account/security/email", recent, (*Site).email},
		{post, "/account/security/email/keep", signedIn, (*Site).cancelAddressChange},
		{get, "/account/old-address", open, (*Site).oldAddressForm},
		{post, "/account/old-address", open, (*Site).oldAddress},
		{get, "/account/new-address", open, (*Site).newAddressForm},
		{post, "/account/new-address", open, (*Site).newAddress},
		{get, "/account/security/password", recent, (*Site).passwordForm},
		{post, "/account/security/password", recent, (*Site).password},
		{get, "/account/security/authenticator", recent, (*Site).replaceForm},
		{post, "/account/security/authenticator", recent, (*Site).replace},
		{get, "/account/security/passkeys", recent, (*Site).passkeyForm},
		{post, "/account/security/passkeys", recent, (*Site).addPasskey},
		{post, "/account/security/passkeys/remove", recent, (*Site).removePasskey},
		{post, "/account/security/sessions/end", recent, (*Site).endSession},
		{post, "/account/security/sessions/end-all", recent, (*Site).endSessions},
		{get, "/account/security/close", recent, (*Site).closeForm},
		{post, "/account/security/close", recent, (*Site).closeAccount},

		// keys
		{get, "/account/keys", signedIn, (*Site).keys},
		{get, "/account/keys/new", signedIn, (*Site).askKey},
		{post, "/account/keys/new", signedIn, (*Site).requestKey},
		{get, "/account/keys/connect", recent, (*Site).askConnect},
		{post, "/account/keys/connect", recent, (*Site).connectKey},
		{get, "/account/keys/requests/:request/collect", recent, (*Site).askCollect},
		{post, "/account/keys/requests/:request/collect", recent, (*Site).collectKey},
		{post, "/account/keys/requests/:request/withdraw", signedIn, (*Site).withdrawRequest},
		{get, "/account/keys/:key", signedIn, (*Site).key},
		{post, "/account/keys/:key/name", signedIn, (*Site).renameKey},
		{get, "/account/keys/:key/rotate", recent, (*Site).askRotate},
		{post, "/account/keys/:key/rotate", recent, (*Site).rotateKey},
		{get, "/account/keys/:key/revoke", recent, (*Site).askRevoke},
		{post, "/account/keys/:key/revoke", recent, (*Site).revokeKey},

		// usage and plan
		{get, "/account/usage", signedIn, (*Site).usage},
		{get, "/account/usage.csv", signedIn, (*Site).usageFile},
		{get, "/account/plan", signedIn, (*Site).plan},
		{post, "/account/plan/upgrade", recent, (*Site).upgrade},
		{post, "/account/plan/portal", recent, (*Site).portal},
		{get, "/account/plan/cancel", recent, (*Site).askCancel},
		{post, "/account/plan/cancel", recent, (*Site).cancel},
		{post, "/account/plan/resume", recent, (*Site).resume},
	}
}
