// Package pages holds the pages of a person's keys: listing, requesting, collecting, rotating, revoking and connecting them.
package pages

import (
	"embed"

	"opportunity.internal/services/authquota/internal/site"
)

// Pages holds the dependencies of the pages.
type Pages struct {
	Keys         Keys
	Usage        Usage
	Requests     Requests
	TestKeys     TestKeys
	Rotations    Rotations
	Revocations  Revocations
	Connections  Connections
	Attempts     Attempts
	Apply        site.Apply
	Peppers      [][]byte // newest first
	TermsVersion string   // of the terms of use in effect
	AutoApprove  bool     // approve key requests automatically
	ApproveTest  bool     // approve the request for an account's test key automatically
}

//go:embed templates
var templates embed.FS

// Feature returns the pages with their access levels.
func (p *Pages) Feature() site.Feature {
	return site.Feature{Templates: templates, Routes: []site.Route{
		site.Get("/account/keys", site.SignedIn, p.list),
		site.Get("/account/keys/:key", site.SignedIn, p.show),
		site.Post("/account/keys/:key/name", site.SignedIn, p.rename),
		site.Get("/account/keys/new", site.SignedIn, p.askKey),
		site.Post("/account/keys/new", site.SignedIn, p.request),
		site.Get("/account/keys/requests/:request/collect", site.Recent, p.askCollect),
		site.Post("/account/keys/requests/:request/collect", site.Recent, p.collect),
		site.Post("/account/keys/requests/:request/withdraw", site.SignedIn, p.withdraw),
		site.Get("/account/keys/:key/rotate", site.Recent, p.askRotate),
		site.Post("/account/keys/:key/rotate", site.Recent, p.rotate),
		site.Get("/account/keys/:key/revoke", site.Recent, p.askRevoke),
		site.Post("/account/keys/:key/revoke", site.Recent, p.revoke),
		site.Get("/account/keys/connect", site.Recent, p.askConnect),
		site.Post("/account/keys/connect", site.Recent, p.connect),
	}}
}
