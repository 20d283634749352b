package linkcheck

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
)

// statusDenied is what LinkedIn and a few others answer to programs.
const statusDenied = 999

// wallHosts are where waiting rooms and bot checks send their visitors.
var wallHosts = []string{"validate.perfdrive.com", "captcha-delivery.com", "queue-it.net", "challenges.cloudflare.com"}

// wall names the bot wall that answered in place of the page; empty where none is known to have. A body is never read, so a
// wall that answers 200 without a header of its own passes for the page.
func wall(status int, h http.Header) string {
	switch {
	case h.Get("Cf-Mitigated") != "":
		return "Cloudflare"
	case h.Get("X-Vercel-Mitigated") != "":
		return "Vercel"
	case h.Get("X-Amzn-Waf-Action") != "": // answers 202 or 405
		return "AWS WAF"
	case status < 400: // what follows names itself on every answer of the sites behind it
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

func wallHost(host string) bool {
	for _, w := range wallHosts {
		if host == w || strings.HasSuffix(host, "."+w) {
			return true
		}
	}
	return false
}

// answered is what an answer that is no redirect comes to, with a sentence for the note where the status does not say it.
func answered(status int, h http.Header) (outcome api.Outcome, why string) {
	if name := wall(status, h); name != "" {
		return api.OutcomeBlocked, "A wall against programs stands before the page (" + name + ")."
	}
	switch {
	case status/100 == 2:
		return api.OutcomeReachable, ""
	case status == http.StatusNotFound || status == http.StatusGone:
		return api.OutcomeClosed, ""
	case status == statusDenied:
		return api.OutcomeBlocked, ""
	case status == http.StatusRequestTimeout || status/100 == 5:
		return api.OutcomeUnreachable, ""
	case status/100 == 4: // 401, 403, 429, 451, and what other filters say: refused to us, which tells nothing of what people see
		return api.OutcomeBlocked, ""
	}
	return api.OutcomeUnreachable, "That is no page."
}

// retryAfter is how long an answer asks us to wait; 0 where it does not say.
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

// failed says in our own words why no answer came. The text of the error stays inside: notes are public.
func failed(err error) string {
	var name *net.DNSError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var certificate *tls.CertificateVerificationError
	var network net.Error
	switch {
	case forbidden(err):
		return "its name leads to an address that is not public"
	case errors.As(err, &name) && name.IsNotFound:
		return "its name does not exist"
	case errors.As(err, &name):
		return "its name was not resolved"
	case errors.As(err, &unknown), errors.As(err, &host), errors.As(err, &invalid), errors.As(err, &certificate):
		return "its certificate is not valid"
	case errors.As(err, &record), errors.As(err, &alert):
		return "it made no TLS connection"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "no answer came in time"
	}
	return "the connection failed"
}

// away says where a link has led, if it is not where it points: to another site, or from a page to a home page.
func away(link, at *url.URL) string {
	if from, to := site(hostname(link)), site(hostname(at)); from != to {
		return fmt.Sprintf("It leads to another site, %s.", to)
	}
	if home(at) && !home(link) {
		return "It leads to the home page."
	}
	return ""
}
