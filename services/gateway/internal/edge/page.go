package edge

import (
	"net/http"
	"strings"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/gateway/internal/proxy"
)

func isPage(path string) bool {
	return strings.HasPrefix(path, string(opAccount)) || strings.HasPrefix(path, string(opSandbox))
}

func (e *Edge) accountPage(x *exchange) error {
	if x.Request.Method == http.MethodPost && strings.HasPrefix(x.path, api.ExplorerPath+"/") {
		return e.explore(x)
	}
	return e.page(e.Account)(x)
}

// page returns the step that forwards a browser's request to the pages of a service. It reads no
// key, charges nothing and needs no Redis: the service itself authenticates and rate-limits.
func (e *Edge) page(service *proxy.Service) step {
	return func(x *exchange) error {
		client := e.client(x.Request)
		form, release, err := e.forms.read(x.Writer, x.Request, api.MaxForm, client)
		if err != nil {
			return err
		}
		defer release()
		return x.take(service.Page(x.Request, x.path, form, client))
	}
}

// webhook forwards a webhook event of the payment processor to billing. The body stays unchanged,
// because billing verifies its signature; an event without one is rejected before its body is read.
func (e *Edge) webhook(x *exchange) error {
	if x.Request.Header.Get(proxy.SignatureHeader) == "" {
		return problem.New(problem.InvalidParameter, "The %s header is missing.", proxy.SignatureHeader)
	}
	client := e.client(x.Request)
	event, release, err := e.events.read(x.Writer, x.Request, api.MaxWebhookEvent, client)
	if err != nil {
		return err
	}
	defer release()
	return x.take(e.Billing.Event(x.Request, x.path, event, client))
}

func (e *Edge) document(x *exchange) error { return x.take(e.History.Forward(x.Request, x.path, "")) }

func (e *Edge) doc(x *exchange) error {
	x.Abort()
	return e.Pages.Serve(x.Writer, x.Request)
}
