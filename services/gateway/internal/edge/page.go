package edge

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/gateway/internal/docs"
	"opportunity.internal/services/gateway/internal/proxy"
	"opportunity.internal/services/gateway/internal/route"
)

// What may be sent at once. The largest form of the pages is far below the first, the largest event of a payment processor below the
// second.
const (
	maxForm  = 64 << 10
	maxEvent = 256 << 10
)

// secret reports whether the answer at a path may show a secret. Such a one is not compressed: beside what somebody else put into
// the page, how well the two compress together would tell of the secret (the BREACH attack).
func secret(path string) bool {
	return paged(path) && !strings.HasPrefix(path, string(route.Account)+"/static/")
}

// paged reports whether a path is one of pages that services make.
func paged(path string) bool {
	return strings.HasPrefix(path, string(route.Account)) || strings.HasPrefix(path, string(route.Sandbox))
}

// page hands a browser's request on to the pages of a service. No key is looked at, nobody is charged and Redis is not asked: who may
// see a page is for the pages to say, and how often one may try as well.
func (e *Edge) page(w http.ResponseWriter, r *http.Request, to route.Route, service *proxy.Service) (int, error) {
	form, err := whole(w, r, maxForm)
	if err != nil {
		return 0, err
	}
	answer, err := service.Page(r, to.Path, form, e.client(r))
	return e.hand(w, answer, err)
}

// webhook hands an event of the payment processor on to billing, byte for byte, because it is signed. Who sent it is for billing to
// find out by that.
func (e *Edge) webhook(w http.ResponseWriter, r *http.Request, to route.Route) (int, error) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return 0, problem.New(problem.MethodNotAllowed, "This path allows only %s.", http.MethodPost)
	}
	event, err := whole(w, r, maxEvent)
	if err != nil {
		return 0, err
	}
	answer, err := e.Billing.Event(r, to.Path, event, e.client(r))
	return e.hand(w, answer, err)
}

// whole reads a body to its end before anybody is bothered with it, so that whoever sends slowly holds up nobody else.
func whole(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return nil, problem.New(problem.InvalidParameter, "The request body must be at most %d KiB.", most>>10).Because(err)
	}
	if err != nil {
		return nil, problem.New(problem.InvalidParameter, "The request body did not arrive completely. Send it again.").Because(err)
	}
	return body, nil
}

// unslash leads a browser to the page that it means, with what it sends.
func unslash(w http.ResponseWriter, r *http.Request, path string) int {
	if r.URL.RawQuery != "" {
		path += "?" + r.URL.RawQuery
	}
	h := w.Header()
	h.Set("Location", path)
	h.Set("Cache-Control", "no-store") // a query may have the token of a mail's link
	h.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(http.StatusPermanentRedirect)
	return http.StatusPermanentRedirect
}

// document hands on what history publishes for everybody.
func (e *Edge) document(w http.ResponseWriter, r *http.Request, to route.Route) (int, error) {
	if err := bodiless(r); err != nil {
		return 0, err
	}
	answer, err := e.History.Document(r, to.Path)
	return e.hand(w, answer, err)
}

func (e *Edge) hand(w http.ResponseWriter, answer proxy.Answer, err error) (int, error) {
	if err == nil {
		err = answer.Write(w)
	}
	if err != nil {
		return 0, upstream{err}
	}
	return answer.StatusCode, nil
}

// refuse writes an error: as a page for a browser, that is for a person who asked for one, and else as the contract has it. Under
// /api everybody is a program.
func (e *Edge) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if strings.HasPrefix(r.URL.Path, "/api/") || !strings.Contains(r.Header.Get("Accept"), "text/html") {
		if paged(r.URL.Path) {
			w.Header().Set("X-Content-Type-Options", "nosniff") // beside pages, nothing is to be taken for one
		}
		e.Errors.Write(w, r, err)
		return
	}
	docs.Protect(w.Header())
	e.Errors.WriteAs(w, r, err, "text/html; charset=utf-8", e.Pages.Refusal)
}
