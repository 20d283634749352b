package linkcheck

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/history/internal/event"
)

// statusLinkedInDenied is the status that LinkedIn and a few other sites send to programs.
const statusLinkedInDenied = 999

var botCheckHosts = []string{"validate.perfdrive.com", "captcha-delivery.com", "queue-it.net",
	"challenges.cloudflare.com"}

// botCheck returns the name of the bot check that sent the response instead of the page, or "" if
// it is none. It looks only at the status and the headers, so a bot check with status 200 and no
// header of its own passes for the page.
func botCheck(status int, h http.Header) string {
	switch {
	case h.Get("Cf-Mitigated") != "":
		return "Cloudflare"
	case h.Get("X-Vercel-Mitigated") != "":
		return "Vercel"
	case h.Get("X-Amzn-Waf-Action") != "": // with status 202 or 405
		return "AWS WAF"
	case status < 400: // the products below set their headers on every response
		return ""
	case h.Get("X-Datadome") != "" || h.Get("X-Dd-B") != "":
		return "DataDome"
	case h.Get("X-Iinfo") != "" || h.Get("X-Cdn") == "Imperva" || h.Get("X-Cdn") == "Incapsula":
		return "Imperva"
	case h.Get("X-Sucuri-Block") != "":
		return "Sucuri"
	case h.Get("X-Kpsdk-Ct") != "":
		return "Kasada"
	case h.Get("X-Px-Block") != "" || h.Get("X-Px-Captcha") != "":
		return "HUMAN"
	}
	return ""
}

// classify returns the outcome of a response that is not a redirect, and an explanation that ends
// its sentence in the note if the status alone does not explain it.
func classify(status int, h http.Header) (outcome api.Outcome, why string) {
	if name := botCheck(status, h); name != "" {
		return api.OutcomeBlocked, ". A bot check blocks the page (" + name + ")"
	}
	switch {
	case status/100 == 2:
		return api.OutcomeReachable, ""
	case status == http.StatusNotFound || status == http.StatusGone:
		return api.OutcomeClosed, ""
	case status == statusLinkedInDenied:
		return api.OutcomeBlocked, ""
	case status == http.StatusRequestTimeout || status/100 == 5:
		return api.OutcomeUnreachable, ""
	case status/100 == 4: // 401, 403, 429, 451 and others reject a program; people may still see the page
		return api.OutcomeBlocked, ""
	}
	return api.OutcomeUnreachable, ". Unexpected status"
}

// retryAfter returns the delay in the header Retry-After, or 0 without one.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second //nolint:gosec // 31 bits
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// resolverFailed reports whether err means that a name could neither be resolved nor said not to
// exist.
func resolverFailed(err error) bool {
	var name *net.DNSError
	return errors.As(err, &name) && !name.IsNotFound
}

// failureReason returns the reason for a missing response. It never contains the error's text,
// because notes are public.
func failureReason(err error) string {
	name, _ := errors.AsType[*net.DNSError](err)
	network, _ := errors.AsType[net.Error](err)
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, record := errors.AsType[tls.RecordHeaderError](err)
	_, alert := errors.AsType[tls.AlertError](err)
	switch {
	case forbidden(err):
		return "its name resolves to an address that is not public"
	case name != nil && name.IsNotFound:
		return "its name does not exist"
	case resolverFailed(err):
		return "its name could not be resolved"
	case certificate:
		return "its certificate is not valid"
	case record, alert:
		return "the TLS handshake failed"
	case errors.Is(err, context.DeadlineExceeded), network != nil && network.Timeout():
		return "the request timed out"
	}
	return "the connection failed"
}

// misdirection returns a sentence if link ended up on another site, or on a home page instead of a
// page. Otherwise it returns "".
func misdirection(link, at *url.URL) string {
	if from, to := event.Site(hostname(link)), event.Site(hostname(at)); from != to {
		return fmt.Sprintf("It leads to another site, %s.", to)
	}
	if isHomePage(at) && !isHomePage(link) {
		return "It leads to the home page."
	}
	return ""
}
