// Package httpapi is billing's HTTP API. Its clients are authquota, for the account pages;
// operators and browsers, through the gateway; and the payment processor, which sends webhook
// events.
package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/billing/internal/sales"
	"opportunity.internal/services/billing/internal/sandbox"
	"opportunity.internal/services/billing/internal/subscription"
)

// API holds the dependencies of the handlers.
type API struct {
	Errors    problem.Writer
	Sales     sales.Sales
	Reconcile func(ctx context.Context, actor string) (api.BillingReport, error)
	Ready     http.Handler
	Webhook   *Webhook

	SandboxPages http.Handler // pages below sandbox.Path; nil if the processor is not the sandbox
}

// processorTimeout bounds how long an account page waits for the processor.
const processorTimeout = 8 * time.Second

// Handler returns the handler of all routes. peer.Rules has the services that may call them.
func (a API) Handler() http.Handler {
	e := web.New(a.Errors)
	e.GET("/readyz", gin.WrapH(a.Ready))
	e.POST(WebhookPath, web.Handler(a.Errors, a.Webhook.serve))
	e.POST("/internal/v1/checkouts", web.Handler(a.Errors, a.page(a.Sales.Checkout)))
	e.POST("/internal/v1/portals", web.Handler(a.Errors, a.page(a.Sales.Portal)))
	e.GET("/internal/v1/subscriptions/:account", web.Handler(a.Errors, a.subscription(a.Sales.Store.Account)))
	e.POST("/internal/v1/subscriptions/:account/cancel", web.Handler(a.Errors, a.subscription(a.Sales.Cancel)))
	e.POST("/internal/v1/subscriptions/:account/resume", web.Handler(a.Errors, a.subscription(a.Sales.Resume)))
	e.POST("/operator/v1/billing/reconcile", web.Handler(a.Errors, a.reconcile))
	if a.SandboxPages != nil {
		e.Any(sandbox.Path+"*page", gin.WrapH(a.SandboxPages))
	}
	return e
}

type handle = func(*gin.Context) (web.Reply, error)

func (a API) page(open func(context.Context, api.ProcessorRequest) (string, error)) handle {
	return func(g *gin.Context) (web.Reply, error) {
		var req api.ProcessorRequest
		if err := web.Decode(g, &req, maxBody); err != nil {
			return web.Reply{}, err
		}
		u, err := url.Parse(req.ReturnURL)
		switch {
		case req.Account == "":
			return web.Reply{}, problem.Invalid("account", "must be the id of an account")
		case req.Email == "":
			return web.Reply{}, problem.Invalid("email", "must be given")
		case err != nil || !api.ValidURL(req.ReturnURL) || u.RawQuery != "" || u.Fragment != "":
			return web.Reply{}, problem.Invalid("returnUrl", "must be an http or https URL without a query")
		}
		ctx, cancel := context.WithTimeout(g.Request.Context(), processorTimeout)
		defer cancel()
		target, err := open(ctx, req)
		return web.Reply{JSON: api.ProcessorPage{URL: target}}, err
	}
}

func (a API) subscription(do func(context.Context, string) (subscription.Account, error)) handle {
	return func(g *gin.Context) (web.Reply, error) {
		ctx, cancel := context.WithTimeout(g.Request.Context(), processorTimeout)
		defer cancel()
		account, err := do(ctx, g.Param("account"))
		return web.Reply{JSON: account.Summary(a.SandboxPages != nil)}, err
	}
}

// reconcileTimeout ends a reconciliation before the gateway gives up.
const reconcileTimeout = api.OperatorTimeout - time.Minute

func (a API) reconcile(g *gin.Context) (web.Reply, error) {
	actor, err := web.Actor(g)
	if err != nil {
		return web.Reply{}, err
	}
	web.Extend(g, reconcileTimeout) // longer than other requests
	ctx, cancel := context.WithTimeout(g.Request.Context(), reconcileTimeout)
	defer cancel()
	report, err := a.Reconcile(ctx, actor)
	return web.Reply{JSON: report}, err
}

// maxBody is the maximum size of a request body in bytes, well above any valid request.
const maxBody = 16 << 10
