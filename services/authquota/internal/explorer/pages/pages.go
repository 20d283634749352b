// Package pages holds the explorer: a form for each operation of the API, which makes the call as one of the person's keys.
//
// The browser has no key. authquota checks the form and responds with the call to make (site.View.Call). The gateway makes it like any
// other call, and requests the page again with the result.
package pages

import (
	"context"
	"embed"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apidoc"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/plan/tier"
	"opportunity.internal/services/authquota/internal/site"
)

// Keys reads the keys of a person's account. Keys of other accounts are not_found.
type Keys interface {
	OwnKeys(ctx context.Context, accountID string) ([]keys.Key, error)
	// ResolveOwn returns a key, and whether the account is suspended.
	ResolveOwn(ctx context.Context, accountID, key string) (own keys.Key, suspended bool, err error)
}

// Epochs reads the epochs of accounts.
type Epochs interface {
	Read(ctx context.Context, accountID string) (int64, error)
}

// Pages holds the dependencies of the pages.
type Pages struct {
	PublicURL string
	API       *apidoc.Description
	Keys      Keys
	Epochs    Epochs
	Tiers     tier.Table
}

//go:embed templates
var templates embed.FS

const (
	listPath = api.ExplorerPath
	formPath = listPath + "/:operation"
)

// Feature returns the pages with their access levels.
func (p *Pages) Feature() site.Feature {
	submit := site.Post(formPath, site.SignedIn, p.submit)
	submit.MaxBody = api.MaxExplorerResult
	return site.Feature{Templates: templates, Routes: []site.Route{
		site.Get(listPath, site.SignedIn, p.list),
		site.Get(formPath, site.SignedIn, p.form),
		submit,
	}}
}

// active returns the keys with which the person can make calls, newest first.
func (p *Pages) active(ctx context.Context, accountID string, now time.Time) ([]keys.Key, error) {
	own, err := p.Keys.OwnKeys(ctx, accountID)
	var active []keys.Key
	for i := len(own) - 1; i >= 0; i-- {
		if own[i].StatusAt(now) == keys.Active {
			active = append(active, own[i])
		}
	}
	return active, err
}
