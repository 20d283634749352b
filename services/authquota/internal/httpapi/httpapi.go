// Package httpapi serves the internal HTTP API of authquota: principals and usage for the gateway,
// entitlements for billing, and keys and accounts for operators (through the gateway).
package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/keyusage"
	"opportunity.internal/services/authquota/internal/notices"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/plan"
)

// API serves the requests.
type API struct {
	People     *people.Store
	Keys       *keys.Store
	Plans      *plan.Store
	Usage      *keyusage.Store
	RequestLog *keyusage.RequestLog
	Notices    *notices.Store

	// InEffect calls read until the epoch that it returns is in effect on every gateway.
	InEffect       func(ctx context.Context, read func(context.Context) (accountdb.Epoch, error)) error
	RedisReachable func(context.Context) error
	// Restore restores the counters of a day in Redis from the ledger if they are missing. It
	// returns once the day has counters.
	Restore func(ctx context.Context, day string) error

	Tiers     account.TierTable
	Peppers   [][]byte // newest first
	OlderKeys apikey.OlderForm
	Shared    api.SharedSettings
	Errors    problem.Writer
	Now       func() time.Time
}

// Handler serves the routes and /readyz. peer.Rules has the services that may call them.
func (a API) Handler(ready http.Handler) http.Handler {
	e := web.New(a.Errors)
	e.GET("/readyz", gin.WrapH(ready))
	for _, r := range []struct {
		method, path string
		handle       func(*gin.Context) (web.Reply, error)
	}{
		{http.MethodPost, "/internal/v1/principals", a.resolve},
		{http.MethodGet, "/internal/v1/key-digests", a.keyDigests},
		{http.MethodPut, "/internal/v1/entitlements/:account", a.entitle},
		{http.MethodGet, "/internal/v1/settings", a.settings},
		{http.MethodGet, "/internal/v1/served", a.served},
		{http.MethodPost, "/internal/v1/usage/:day/restore", a.restore},
		{http.MethodPost, "/internal/v1/usage-batches", a.addBatch},

		{http.MethodGet, "/operator/v1/accounts", a.listAccounts},
		{http.MethodGet, "/operator/v1/accounts/:id", a.showAccount},
		{http.MethodPost, "/operator/v1/accounts/:id/suspend", a.suspend},
		{http.MethodPost, "/operator/v1/accounts/:id/resume", a.resume},
		{http.MethodPost, "/operator/v1/accounts/:id/grant", a.grant},
		{http.MethodGet, "/operator/v1/audit", a.listAudit},
		{http.MethodPost, "/operator/v1/keys", a.issue},
		{http.MethodGet, "/operator/v1/keys", a.listKeys},
		{http.MethodPost, "/operator/v1/keys/:id/revoke", a.revoke},
		{http.MethodPost, "/operator/v1/keys/import", a.importKeys},
		{http.MethodGet, "/operator/v1/keys/requests", a.listRequests},
		{http.MethodPost, "/operator/v1/keys/requests/:id/approve", a.approve},
		{http.MethodPost, "/operator/v1/keys/requests/:id/decline", a.decline},
		{http.MethodGet, "/operator/v1/usage", a.report},
		{http.MethodPost, "/operator/v1/announcements", a.announce},
	} {
		e.Handle(r.method, r.path, web.Handler(a.Errors, r.handle))
	}
	return e
}

// Limits of the operators' lists.
const (
	MaxPage     = api.MaxOperatorPageSize
	MaxFragment = 254 // of an address or a name
)

// Page parses after, an ID that known accepts, and limit.
func Page(query params.Values, known func(string) error) (account.Page, error) {
	limit, err := query.Integer("limit", 1, MaxPage, MaxPage)
	if after, given := query["after"]; given && err == nil {
		if known(after) != nil {
			err = problem.Invalid("after", "must be the ID of the last entry of the previous page")
		}
		return account.Page{After: after, Limit: limit}, err
	}
	return account.Page{Limit: limit}, err
}

// maxBody is far above the size of these requests, except usage batches.
const maxBody = 64 << 10

// unknownField extracts the field name from the error of encoding/json, which has no type. Longer
// names are not repeated to the caller, because they may be a misplaced key.
var unknownField = regexp.MustCompile(`^json: unknown field "([A-Za-z]{1,32})"$`)

// Decode reads the request body into out and rejects unknown fields. An absent body leaves out
// unchanged.
func Decode(g *gin.Context, out any) error { return DecodeUpTo(g, out, maxBody) }

// DecodeUpTo is Decode for bodies of up to most bytes.
func DecodeUpTo(g *gin.Context, out any, most int64) error {
	if _, err := params.Read(g.Request.URL.RawQuery); err != nil {
		return err
	}
	err := web.Decode(g, out, most)
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	if refused := new(problem.Error); errors.As(err, &refused) {
		return err
	}
	if errors.Is(err, web.ErrTrailingData) {
		return problem.New(problem.InvalidParameter, "The body must be one JSON object and nothing after it.")
	}
	// The error of package time for JSON other than a string has no type.
	if wrong := new(time.ParseError); errors.As(err, &wrong) || strings.HasPrefix(err.Error(), "Time.UnmarshalJSON") {
		return problem.New(problem.InvalidParameter, "Times must look like 2027-01-31T00:00:00Z.")
	}
	if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) && wrong.Field != "" {
		return problem.Invalid(wrong.Field, "must be a "+wrong.Type.String()+", not a "+wrong.Value)
	}
	if name := unknownField.FindStringSubmatch(err.Error()); name != nil {
		return problem.Invalid(name[1], "is unknown")
	}
	return problem.New(problem.InvalidParameter, "The body must be one JSON object of at most %d bytes.", most).Because(err)
}
