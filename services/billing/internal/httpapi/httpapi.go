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
	"opportunity.internal/services/billing/internal/subscription"
)

// API holds the dependencies of the handlers.
type API struct {
	Errors    problem.Writer
	Sales     sales.Sales
	Reconcile func(ctx context.Context, actor string) (api.BillingReport, error)
	Sandbox   bool // whether the processor is the sandbox
	Ready     http.Handler
	Webhook   *Webhook

	SandboxPath  string
	SandboxPages http.Handler // pages below SandboxPath; nil if the processor is not the sandbox
}

// processorTimeout bounds how long an account page waits for the processor.
const processorTimeout = 8 * time.Second

// Handler returns the handler of all routes. peer.Rules has the services that may call them.
func (a API) Handler() http.Handler {
	e := web.New(a.Errors)
	e.GET("/readyz", gin.WrapH(a.Ready))
	e.POST(WebhookPath, web.Handler(a.Errors, a.Webhook.serve))
	e.POST("/internal/v1/checkouts", web.Handler(a.Errors, a.checkout))
	e.POST("/internal/v1/portals", web.Handler(a.Errors, a.portal))
	e.GET("/internal/v1/subscriptions/:account", web.Handler(a.Errors, a.subscription(a.Sales.Store.Account)))
	e.POST("/internal/v1/subscriptions/:account/cancel", web.Handler(a.Errors, a.subscription(a.Sales.Cancel)))
	e.POST("/internal/v1/subscriptions/:account/resume", web.Handler(a.Errors, a.subscription(a.Sales.Resume)))
	e.POST("/operator/v1/billing/reconcile", web.Handler(a.Errors, a.reconcile))
	if a.SandboxPages != nil {
		e.Any(a.SandboxPath+"*page", gin.WrapH(a.SandboxPages))
	}
	return e
}

func (a API) checkout(g *gin.Context) (web.Reply, error) {
	var req api.CheckoutRequest
	if err := web.Decode(g, &req, maxBody); err != nil {
		return web.Reply{}, err
	}
	if req.Email == "" {
		return web.Reply{}, problem.Invalid("email", "must be given")
	}
	return page(g, req.Account, req.ReturnURL, func(ctx context.Context) (string, error) {
		return a.Sales.Checkout(ctx, req)
	})
}

func (a API) portal(g *gin.Context) (web.Reply, error) {
	var req api.PortalRequest
	if err := web.Decode(g, &req, maxBody); err != nil {
		return web.Reply{}, err
	}
	return page(g, req.Account, req.ReturnURL, func(ctx context.Context) (string, error) {
		return a.Sales.Portal(ctx, req)
	})
}

func page(g *gin.Context, account, returnURL string, open func(context.Context) (string, error)) (web.Reply, error) {
	if account == "" {
		return web.Reply{}, problem.Invalid("account", "must be the id of an account")
	}
	if u, err := url.Parse(returnURL); err != nil || !api.ValidURL(returnURL) || u.RawQuery != "" || u.Fragment != "" {
		return web.Reply{}, problem.Invalid("returnUrl", "must be an http or https URL without a query")
	}
	ctx, cancel := context.WithTimeout(g.Request.Context(), processorTimeout)
	defer cancel()
	target, err := open(ctx)
	return web.Reply{JSON: api.ProcessorPage{URL: target}}, err
}

func (a API) subscription(do func(context.Context, string) (subscription.Account, error)) func(*gin.Context) (web.Reply,
	error) {
	return func(g *gin.Context) (web.Reply, error) {
		ctx, cancel := context.WithTimeout(g.Request.Context(), processorTimeout)
		defer cancel()
		account, err := do(ctx, g.Param("account"))
		return web.Reply{JSON: account.Summary(a.Sandbox)}, err
	}
}

// reconcileTimeout ends a reconciliation before the gateway gives up.
const reconcileTimeout = api.OperatorTimeout - time.Minute

func (a API) reconcile(g *gin.Context) (web.Reply, error) {
	actor, err := web.Actor(g)
	if err != nil {
		return web.Reply{}, err
	}
	// This request takes longer than the server's write timeout allows.
	_ = http.NewResponseController(g.Writer).SetWriteDeadline(time.Now().Add(reconcileTimeout + time.Minute))
	ctx, cancel := context.WithTimeout(g.Request.Context(), reconcileTimeout)
	defer cancel()
	report, err := a.Reconcile(ctx, actor)
	return web.Reply{JSON: report}, err
}

// maxBody is the maximum size of a request body in bytes, well above any valid request.
const maxBody = 16 << 10
