// Package pages holds the account pages: signing up, in and out, the security of an account, its keys, its usage and its plan.
//
// Every change sends its mails and writes the audit log, in the stores.
package pages

import (
	"embed"
	"log/slog"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apidoc"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/passkey"
	"opportunity.internal/services/authquota/internal/site"
)

// Issuer is the name of the service in authenticator apps and for passkeys.
const Issuer = "Opportunity Data API"

// Pages holds the dependencies of the pages.
type Pages struct {
	PublicURL    string
	RelyingParty passkey.Site
	Peppers      [][]byte // newest first
	TermsVersion string   // of the terms of use in effect
	AutoApprove  bool     // approve key requests automatically
	ApproveTest  bool     // approve the request for an account's test key automatically
	Tiers        account.TierTable
	API          *apidoc.Description
	Log          *slog.Logger
	Apply        site.Apply
	Allowances   site.Allowances
	Epochs       Epochs
	Billing      Billing // nil if no plans are sold

	Sessions        Sessions
	Attempts        Attempts
	Links           Links
	SignUps         SignUps
	Passwords       Passwords
	Codes           Codes
	Resets          Resets
	Authenticators  Authenticators
	Losses          Losses
	Passkeys        Passkeys
	Challenges      Challenges
	Proofs          Proofs
	Events          Events
	PasswordChanges PasswordChanges
	AddressChanges  AddressChanges
	AddressLinks    AddressLinks
	Replacements    Replacements
	Closing         Closing
	Renewals        Renewals
	UnusedCodes     UnusedCodes

	Overview     Overview
	Keys         Keys
	ExplorerKeys ExplorerKeys
	KeyUsage     KeyUsage
	Requests     Requests
	TestKeys     TestKeys
	Rotations    Rotations
	Revocations  Revocations
	Connections  Connections
	Usage        Usage
	RequestLog   RequestLog
	Choices      Choices
	Actions      Actions
}

//go:embed templates
var templates embed.FS

// Feature returns the pages with their access levels.
func (p *Pages) Feature() site.Feature {
	makeCall := site.Post(explorerFormPath, site.SignedIn, p.makeCall)
	makeCall.MaxBody = api.MaxExplorerResult
	return site.Feature{Templates: templates, Routes: []site.Route{
		site.Get(site.Home, site.SignedIn, p.home),

		// signing up, in and out
		site.Get("/account/sign-up", site.Open, p.signUpForm),
		site.Post("/account/sign-up", site.Open, p.signUp),
		site.Get("/account/sign-up/sent", site.Open, sent("a link to choose a password. It works once, for 24 hours")),
		site.Get("/account/confirm", site.Open, p.confirmForm),
		site.Post("/account/confirm", site.Open, p.confirm),
		site.Get("/account/sign-in", site.Open, p.signInForm),
		site.Post("/account/sign-in", site.Open, p.signIn),
		site.Get("/account/sign-in/code", site.Halfway, p.codeForm),
		site.Post("/account/sign-in/code", site.Halfway, p.code),
		site.Post("/account/sign-in/passkey", site.Halfway, p.passkeyStep),
		site.Get("/account/authenticator", site.Halfway, p.authenticatorForm),
		site.Post("/account/authenticator", site.Halfway, p.authenticator),
		site.Get("/account/forgot", site.Open, p.forgotForm),
		site.Post("/account/forgot", site.Open, p.forgot),
		site.Get("/account/forgot/sent", site.Open, sent("a link to choose a new password, if there is an account with that address. It works once, for an hour")),
		site.Get("/account/reset", site.Open, p.resetForm),
		site.Post("/account/reset", site.Open, p.reset),
		site.Get("/account/lost-authenticator", site.Halfway, p.lostForm),
		site.Post("/account/lost-authenticator", site.Halfway, p.lost),
		site.Get("/account/lost-authenticator/sent", site.Open, sent("two links: one starts the three-day waiting period, the other cancels it. The first works for 24 hours")),
		site.Get("/account/lost-authenticator/confirm", site.Open, p.lostConfirmForm),
		site.Post("/account/lost-authenticator/confirm", site.Open, p.lostConfirm),
		site.Get("/account/lost-authenticator/cancel", site.Open, p.lostCancelForm),
		site.Post("/account/lost-authenticator/cancel", site.Open, p.lostCancel),
		site.Post("/account/sign-out", site.Open, p.signOut),

		// security
		site.Get("/account/security", site.SignedIn, p.security),
		site.Get("/account/security/confirm", site.SignedIn, p.proveForm),
		site.Post("/account/security/confirm", site.SignedIn, p.prove),
		site.Get("/account/security/email", site.Recent, p.emailForm),
		site.Post("/account/security/email", site.Recent, p.email),
		site.Post("/account/security/email/keep", site.SignedIn, p.cancelAddressChange),
		site.Get("/account/old-address", site.Open, p.oldAddressForm),
		site.Post("/account/old-address", site.Open, p.oldAddress),
		site.Get("/account/new-address", site.Open, p.newAddressForm),
		site.Post("/account/new-address", site.Open, p.newAddress),
		site.Get("/account/security/password", site.Recent, p.passwordForm),
		site.Post("/account/security/password", site.Recent, p.password),
		site.Get("/account/security/authenticator", site.Recent, p.replaceForm),
		site.Post("/account/security/authenticator", site.Recent, p.replace),
		site.Post("/account/security/authenticator/keep", site.SignedIn, p.keepAuthenticator),
		site.Get("/account/security/passkeys", site.Recent, p.passkeyForm),
		site.Post("/account/security/passkeys", site.Recent, p.addPasskey),
		site.Post("/account/security/passkeys/remove", site.Recent, p.removePasskey),
		site.Post("/account/security/sessions/end", site.Recent, p.endSession),
		site.Post("/account/security/sessions/end-all", site.Recent, p.endSessions),
		site.Get("/account/security/close", site.Recent, p.closeForm),
		site.Post("/account/security/close", site.Recent, p.closeAccount),
		site.Get("/account/recovery-codes", site.SignedIn, p.codesForm),
		site.Post("/account/recovery-codes", site.Recent, p.renewCodes),
		site.Post("/account/recovery-codes/download", site.SignedIn, p.downloadCodes),

		// keys
		site.Get("/account/keys", site.SignedIn, p.listKeys),
		site.Get("/account/keys/:key", site.SignedIn, p.showKey),
		site.Post("/account/keys/:key/name", site.SignedIn, p.renameKey),
		site.Get("/account/keys/new", site.SignedIn, p.askKey),
		site.Post("/account/keys/new", site.SignedIn, p.requestKey),
		site.Get("/account/keys/requests/:request/collect", site.Recent, p.askCollect),
		site.Post("/account/keys/requests/:request/collect", site.Recent, p.collectKey),
		site.Post("/account/keys/requests/:request/withdraw", site.SignedIn, p.withdrawRequest),
		site.Get("/account/keys/:key/rotate", site.Recent, p.askRotate),
		site.Post("/account/keys/:key/rotate", site.Recent, p.rotateKey),
		site.Get("/account/keys/:key/revoke", site.Recent, p.askRevoke),
		site.Post("/account/keys/:key/revoke", site.Recent, p.revokeKey),
		site.Get("/account/keys/connect", site.Recent, p.askConnect),
		site.Post("/account/keys/connect", site.Recent, p.connectKey),

		// explorer
		site.Get(api.ExplorerPath, site.SignedIn, p.explorerList),
		site.Get(explorerFormPath, site.SignedIn, p.explorerForm),
		makeCall,

		// usage and notices
		site.Get("/account/usage", site.SignedIn, p.usage),
		site.Get("/account/usage.csv", site.SignedIn, p.csv),
		site.Get(requestsPath, site.SignedIn, p.latestRequests),
		site.Get(noticesPath, site.SignedIn, p.noticesForm),
		site.Post(noticesPath, site.SignedIn, p.chooseNotices),

		// plan
		site.Get("/account/plan", site.SignedIn, p.plan),
		site.Post("/account/plan/upgrade", site.Recent, p.upgrade),
		site.Post("/account/plan/portal", site.Recent, p.portal),
		site.Get("/account/plan/cancel", site.Recent, p.askCancel),
		site.Post("/account/plan/cancel", site.Recent, p.cancel),
		site.Post("/account/plan/resume", site.Recent, p.resume),
	}}
}
