// Package httpapi is how billing is asked: by authquota for an account's person, by operators through the gateway, and by the payment
// processor, which announces what happened.
package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/billing/internal/subscription"
)

// Sales does what accounts wish.
type Sales interface {
	Checkout(ctx context.Context, want api.CheckoutRequest) (url string, err error)
	Portal(ctx context.Context, want api.PortalRequest) (url string, err error)
	Cancel(ctx context.Context, account string) (subscription.Standing, error)
	Resume(ctx context.Context, account string) (subscription.Standing, error)
}

// Store is what is kept of accounts.
type Store interface {
	Standing(ctx context.Context, account string) (subscription.Standing, error)
}

// API answers requests.
type API struct {
	Errors    problem.Writer
	Tokens    peer.Tokens
	Sales     Sales
	Store     Store
	Reconcile func(ctx context.Context, actor string) (api.BillingReport, error)
	Sandbox   bool // no real money moves
	Ready     http.Handler
	Webhook   *Webhook // nil: no processor announces anything here

	SandboxPath  string
	SandboxPages http.Handler // of the sandbox, below SandboxPath; nil: it is not the processor
}

// pageTime is how long a person waits for the processor before the page says that it is away.
const pageTime = 8 * time.Second

// Handler routes requests.
func (a API) Handler() http.Handler {
	e := web.New(a.Errors)
	e.GET("/readyz", gin.WrapH(a.Ready))
	if a.Webhook != nil {
		e.POST(WebhookPath, web.Answer(a.Errors, a.Webhook.answer))
	}
	inside := e.Group("", web.Internal(a.Errors, a.Tokens))
	inside.POST("/internal/v1/checkouts", web.Answer(a.Errors, a.checkout))
	inside.POST("/internal/v1/portals", web.Answer(a.Errors, a.portal))
	inside.GET("/internal/v1/subscriptions/:account", web.Answer(a.Errors, a.standing(a.Store.Standing)))
	inside.POST("/internal/v1/subscriptions/:account/cancel", web.Answer(a.Errors, a.standing(a.Sales.Cancel)))
	inside.POST("/internal/v1/subscriptions/:account/resume", web.Answer(a.Errors, a.standing(a.Sales.Resume)))
	inside.POST("/operator/v1/billing/reconcile", web.Answer(a.Errors, a.reconcile))
	if a.SandboxPages != nil {
		inside.Any(a.SandboxPath+"*page", gin.WrapH(a.SandboxPages))
	}
	return e
}

func (a API) checkout(g *gin.Context) (web.Reply, error) {
	var want api.CheckoutRequest
	if err := decode(g, &want); err != nil {
		return web.Reply{}, err
	}
	if want.Email == "" {
		return web.Reply{}, params.Invalid("email", "must be given")
	}
	return page(g, want.Account, want.ReturnURL, func(ctx context.Context) (string, error) { return a.Sales.Checkout(ctx, want) })
}

func (a API) portal(g *gin.Context) (web.Reply, error) {
	var want api.PortalRequest
	if err := decode(g, &want); err != nil {
		return web.Reply{}, err
	}
	return page(g, want.Account, want.ReturnURL, func(ctx context.Context) (string, error) { return a.Sales.Portal(ctx, want) })
}

func page(g *gin.Context, account, back string, open func(context.Context) (string, error)) (web.Reply, error) {
	if account == "" {
		return web.Reply{}, params.Invalid("account", "must be the id of an account")
	}
	if u, err := url.Parse(back); err != nil || !api.ValidURL(back) || u.RawQuery != "" || u.Fragment != "" {
		return web.Reply{}, params.Invalid("returnUrl", "must be an http or https URL without a query")
	}
	ctx, cancel := context.WithTimeout(g.Request.Context(), pageTime)
	defer cancel()
	to, err := open(ctx)
	return web.Reply{JSON: api.ProcessorPage{URL: to}}, err
}

func (a API) standing(act func(context.Context, string) (subscription.Standing, error)) func(*gin.Context) (web.Reply, error) {
	return func(g *gin.Context) (web.Reply, error) {
		ctx, cancel := context.WithTimeout(g.Request.Context(), pageTime)
		defer cancel()
		standing, err := act(ctx, g.Param("account"))
		return web.Reply{JSON: standing.Page(a.Sandbox)}, err
	}
}

// reconcileTime is below what the gateway waits for an operator's verb.
const reconcileTime = 4 * time.Minute

func (a API) reconcile(g *gin.Context) (web.Reply, error) {
	actor, err := web.Actor(g)
	if err != nil {
		return web.Reply{}, err
	}
	_ = http.NewResponseController(g.Writer).SetWriteDeadline(time.Now().Add(reconcileTime + time.Minute)) // longer than the listener's own
	ctx, cancel := context.WithTimeout(g.Request.Context(), reconcileTime)
	defer cancel()
	report, err := a.Reconcile(ctx, actor)
	return web.Reply{JSON: report}, err
}

// maxBody is far above what any of these requests needs.
const maxBody = 16 << 10

func decode(g *gin.Context, out any) error {
	in := json.NewDecoder(http.MaxBytesReader(g.Writer, g.Request.Body, maxBody))
	in.DisallowUnknownFields()
	err := in.Decode(out)
	if err == nil {
		if _, err = in.Token(); errors.Is(err, io.EOF) {
			return nil
		}
	}
	return problem.New(problem.InvalidParameter, "The body must be one JSON object of the fields that this address takes.").Because(err)
}
