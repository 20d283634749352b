package edge

import (
	"net/http"
	"net/url"
	"strings"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/gateway/internal/docs"
	"opportunity.internal/services/gateway/internal/proxy"
)

// isPage reports whether path belongs to the pages of authquota or billing.
func isPage(path string) bool {
	return strings.HasPrefix(path, string(opAccount)) || strings.HasPrefix(path, string(opSandbox))
}

// accountPage serves the pages of authquota, and the forms of the explorer among them.
func (e *Edge) accountPage(w http.ResponseWriter, r *http.Request, to target, end *observation) (int, error) {
	if r.Method == http.MethodPost && strings.HasPrefix(to.path, api.ExplorerPath+"/") {
		return e.explore(w, r, to)
	}
	return e.page(e.Account)(w, r, to, end)
}

// page returns the handler that forwards a browser's request to the pages of a service. It reads no key, charges nothing and needs no Redis:
// the service itself authenticates and rate-limits.
func (e *Edge) page(service *proxy.Service) handler {
	return func(w http.ResponseWriter, r *http.Request, to target, _ *observation) (int, error) {
		form, release, err := e.forms.read(w, r, api.MaxForm, e.client(r))
		if err != nil {
			return 0, err
		}
		defer release()
		response, err := service.Page(r, to.path, form, e.client(r))
		return e.write(w, response, err)
	}
}

// webhook forwards a webhook event of the payment processor to billing. The body stays unchanged, because billing verifies its
// signature; an event without one is rejected before its body is read.
func (e *Edge) webhook(w http.ResponseWriter, r *http.Request, to target, _ *observation) (int, error) {
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
	response, err := e.Billing.Event(r, to.path, event, e.client(r))
	return e.write(w, response, err)
}

// trimSlash returns the path of an account page without its trailing slash, and false if there is no such page. API paths have no such
// redirect.
func trimSlash(u *url.URL) (path string, ok bool) {
	path, slashed := strings.CutSuffix(u.Path, "/")
	_, ok = plainOf(opAccount, &url.URL{Path: path})
	return path, ok && slashed && u.EscapedPath() == u.Path
}

// redirect sends a browser to the path of its target and keeps the method, body and query.
func redirect(w http.ResponseWriter, r *http.Request, to target, _ *observation) (int, error) {
	path := to.path
	if r.URL.RawQuery != "" {
		path += "?" + r.URL.RawQuery
	}
	h := w.Header()
	h.Set("Location", path)
	h.Set("Cache-Control", "no-store") // the query may contain the token of a mailed link
	h.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(http.StatusPermanentRedirect)
	return http.StatusPermanentRedirect, nil
}

// document forwards a request for a public document of the history service.
func (e *Edge) document(w http.ResponseWriter, r *http.Request, to target, _ *observation) (int, error) {
	if err := rejectBody(w, r); err != nil {
		return 0, err
	}
	response, err := e.History.Document(r, to.path)
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
