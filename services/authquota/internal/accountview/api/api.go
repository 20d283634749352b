// Package api serves the operators' requests about accounts and the audit log.
package api

import (
	"context"
	"time"

	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountview"
	"opportunity.internal/services/authquota/internal/httpapi"
	"opportunity.internal/services/authquota/internal/plan/tier"
)

// Accounts stores accounts.
type Accounts interface {
	Accounts(ctx context.Context, search accountview.Search) (listed []accountview.Listed, more bool, err error)
	Account(ctx context.Context, id string) (accountview.Details, error)
	// ChangeAccount applies a change. Repeating it changes nothing.
	ChangeAccount(ctx context.Context, actor, id string, change account.Change) (account.Account, error)
}

// Audit reads the audit log.
type Audit interface {
	Audit(ctx context.Context, search accountview.AuditSearch) (entries []accountview.AuditEntry, more bool, err error)
}

// API serves the requests.
type API struct {
	Accounts Accounts
	Audit    Audit
	Epochs   httpapi.Epochs
	Tiers    tier.Table
	Now      func() time.Time
}

// Routes returns the routes.
func (a API) Routes() []httpapi.Route {
	return []httpapi.Route{
		httpapi.Get("/operator/v1/accounts", a.listAccounts),
		httpapi.Get("/operator/v1/accounts/:id", a.showAccount),
		httpapi.Post("/operator/v1/accounts/:id/suspend", a.suspend),
		httpapi.Post("/operator/v1/accounts/:id/resume", a.resume),
		httpapi.Post("/operator/v1/accounts/:id/grant", a.grant),
		httpapi.Get("/operator/v1/audit", a.listAudit),
	}
}
