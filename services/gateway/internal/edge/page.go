package edge

import (
	"net/http"
	"strings"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/gateway/internal/docs"
	"opportunity.internal/services/gateway/internal/proxy"
	"opportunity.internal/services/gateway/internal/route"
)

// mayShowSecret reports whether the page at path may contain a secret. Such pages are not compressed: if an attacker can put text into
// the page, the compressed size reveals the secret (BREACH).
func mayShowSecret(path string) bool {
	return isPage(path) && !strings.HasPrefix(path, string(route.Account)+"/static/")
}

// isPage reports whether path belongs to the pages of authquota or billing.
func isPage(path string) bool {
	return strings.HasPrefix(path, string(route.Account)) || strings.HasPrefix(path, string(route.Sandbox))
}

// page forwards a browser's request to the pages of a service. It reads no key, charges nothing and needs no Redis: the service
// itself authenticates and rate-limits.
func (e *Edge) page(w http.ResponseWriter, r *http.Request, to route.Route, service *proxy.Service) (int, error) {
	form, release, err := e.forms.read(w, r, api.MaxForm, e.client(r))
	if err != nil {
		return 0, err
	}
	defer release()
	response, err := service.Page(r, to.Path, form, e.client(r))
	return e.write(w, response, err)
}

// webhook forwards a webhook event of the payment processor to billing. The body stays unchanged, because billing verifies its
// signature; an event without one is rejected before its body is read.
func (e *Edge) webhook(w http.ResponseWriter, r *http.Request, to route.Route) (int, error) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return 0, problem.New(problem.MethodNotAllowed, "This path allows only %s.", http.MethodPost)
	}
	if r.Header.Get(proxy.SignatureHeader) == "" {
		return 0, problem.New(problem.InvalidParameter, "The %s header is missing.", proxy.SignatureHeader)
	}
	event, release, err := e.events.read(w, r, api.MaxWebhookEvent, e.client(r))
	if err != nil {
		return 0, err
	}
	defer release()
	response, err := e.Billing.Event(r, to.Path, event, e.client(r))
	return e.write(w, response, err)
}

// redirect sends a browser to path and keeps the method, body and query.
func redirect(w http.ResponseWriter, r *http.Request, path string) int {
	if r.URL.RawQuery != "" {
		path += "?" + r.URL.RawQuery
	}
	h := w.Header()
	h.Set("Location", path)
	h.Set("Cache-Control", "no-store") // the query may contain the token of a mailed link
	h.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(http.StatusPermanentRedirect)
	return http.StatusPermanentRedirect
}

// document forwards a request for a public document of the history service.
func (e *Edge) document(w http.ResponseWriter, r *http.Request, to route.Route) (int, error) {
	if err := rejectBody(w, r); err != nil {
		return 0, err
	}
	response, err := e.History.Document(r, to.Path)
	return e.write(w, response, err)
}

func (e *Edge) write(w http.ResponseWriter, response proxy.Response, err error) (int, error) {
	if err == nil {
		err = response.Write(w)
	}
	if err != nil {
		return 0, upstream{err}
	}
	return response.StatusCode, nil
}

// writeError writes err as a page for browsers, which accept text/html, and as the JSON of the API contract otherwise. Paths under
// /api always get JSON.
func (e *Edge) writeError(w http.ResponseWriter, r *http.Request, err error) {
	if strings.HasPrefix(r.URL.Path, "/api/") || !strings.Contains(r.Header.Get("Accept"), "text/html") {
		if isPage(r.URL.Path) {
			w.Header().Set("X-Content-Type-Options", "nosniff") // a browser must not render JSON as a page
		}
		e.Errors.Write(w, r, err)
		return
	}
	docs.Protect(w.Header())
	e.Errors.WriteAs(w, r, err, "text/html; charset=utf-8", e.Pages.ErrorPage)
}
