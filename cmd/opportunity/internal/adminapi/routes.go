package adminapi

import (
	"net/http"

	"opportunity.internal/pkg/api"
)

// Route is a call of the operator API. Its response is a T.
type Route[T any] struct {
	method, path string // {id} in the path stands for the id of the input
}

// Routes of listings and their reviews. The types of the operator API describe their bodies.
var (
	ListListings     = Route[api.ListingList]{http.MethodGet, "/listings"}
	ImportListings   = Route[api.ImportReport]{http.MethodPost, "/listings/import"}
	PublishListings  = Route[api.ImportReport]{http.MethodPost, "/listings/publish"} // Line is the position of an id
	WithdrawListings = Route[api.ImportReport]{http.MethodPost, "/listings/withdraw"}
	GetListing       = Route[api.ListingDetail]{http.MethodGet, "/records/{id}"}
	EditListing      = Route[api.EditReport]{http.MethodPut, "/records/{id}"}
	GetPages         = Route[api.PageTexts]{http.MethodGet, "/records/{id}/pages"}
	ReadPages        = Route[api.PagesDue]{http.MethodPost, "/records/{id}/read"}
	GetCatalog       = Route[api.CatalogStatus]{http.MethodGet, "/catalog"}
	ListChanges      = Route[api.ListingActList]{http.MethodGet, "/changes"}

	AppendEvents = Route[api.AppendReport]{http.MethodPost, "/events/append"}
	ListEvents   = Route[api.EventActList]{http.MethodGet, "/events"}
	GetHistory   = Route[api.HistorySnapshot]{http.MethodGet, "/history/{id}"}

	ListDue           = Route[api.DueList]{http.MethodGet, "/reviews/due"}
	GetQueue          = Route[api.ReviewQueue]{http.MethodGet, "/reviews/queue"}
	ListCandidates    = Route[api.CandidateList]{http.MethodGet, "/reviews/candidates"}
	GetFreshness      = Route[api.Freshness]{http.MethodGet, "/reviews/freshness"}
	ListOpinions      = Route[api.OpinionList]{http.MethodGet, "/reviews/second-opinions"}
	ListWithdrawals   = Route[api.WithdrawalList]{http.MethodGet, "/reviews/withdrawals"}
	FindQuotes        = Route[api.QuoteFindings]{http.MethodPost, "/reviews/quotes"}
	GetSheet          = Route[api.ReviewSheet]{http.MethodGet, "/reviews/records/{id}"}
	SubmitReview      = Route[api.ReviewReport]{http.MethodPost, "/reviews/records/{id}"}
	UndoReview        = Route[api.ReviewReport]{http.MethodPost, "/reviews/records/{id}/undo"}
	TakeLease         = Route[api.Lease]{http.MethodPut, "/reviews/records/{id}/lease"}
	SaveDraft         = Route[api.Draft]{http.MethodPut, "/reviews/records/{id}/draft"}
	DeleteDraft       = Route[any]{http.MethodDelete, "/reviews/records/{id}/draft"}
	SkipRecord        = Route[api.Skip]{http.MethodPut, "/reviews/records/{id}/skip"}
	OpenSource        = Route[any]{http.MethodPut, "/reviews/records/{id}/opened"}
	ProposeWithdrawal = Route[any]{http.MethodPost, "/reviews/records/{id}/propose-withdrawal"}
	DeclineWithdrawal = Route[any]{http.MethodPost, "/reviews/records/{id}/decline-withdrawal"}
)

// Routes of keys and accounts.
var (
	GetMe             = Route[api.Operator]{http.MethodGet, "/me"}
	ListKeys          = Route[api.KeyList]{http.MethodGet, "/keys"}
	IssueKey          = Route[api.IssuedKey]{http.MethodPost, "/keys"} // the body is a KeyRequest
	ImportKeys        = Route[api.ImportReport]{http.MethodPost, "/keys/import"}
	RevokeKey         = Route[any]{http.MethodPost, "/keys/{id}/revoke"}
	ListKeyRequests   = Route[api.KeyRequestList]{http.MethodGet, "/keys/requests"}
	ApproveKeyRequest = Route[api.KeyRequest]{http.MethodPost, "/keys/requests/{id}/approve"}
	DeclineKeyRequest = Route[api.KeyRequest]{http.MethodPost, "/keys/requests/{id}/decline"}

	ListAccounts       = Route[api.AccountList]{http.MethodGet, "/accounts"}
	GetAccount         = Route[api.AccountDetail]{http.MethodGet, "/accounts/{id}"}
	SuspendAccount     = Route[any]{http.MethodPost, "/accounts/{id}/suspend"}
	ResumeAccount      = Route[any]{http.MethodPost, "/accounts/{id}/resume"}
	GrantTier          = Route[any]{http.MethodPost, "/accounts/{id}/grant"}
	ResetAuthenticator = Route[api.AuthenticatorReset]{http.MethodPost, "/accounts/{id}/reset-authenticator"}
	Announce           = Route[api.Announcement]{http.MethodPost, "/announcements"}
	ListAudit          = Route[api.AuditList]{http.MethodGet, "/audit"}
	GetUsage           = Route[api.UsageReport]{http.MethodGet, "/usage"}
	ReconcileBilling   = Route[api.BillingReport]{http.MethodPost, "/billing/reconcile"}
)
