package linkcheck

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

const (
	reachable   = api.OutcomeReachable
	blocked     = api.OutcomeBlocked
	unreachable = api.OutcomeUnreachable
	closed      = api.OutcomeClosed
	needsReview = api.OutcomeNeedsReview
)

func TestOutcomeOfStatus(t *testing.T) {
	w := newFakeNet(t)
	for outcome, codes := range map[api.Outcome][]int{
		reachable: {200, 204}, blocked: {401, 403, 405, 429, 451, 999}, closed: {404, 410}, unreachable: {408, 500, 503},
	} {
		for _, code := range codes {
			w.on("/apply", status(code))
			require.Equal(t, result{outcome: outcome, note: fmt.Sprintf("Answered %d.", code), retry: outcome == unreachable},
				w.try("http://maple.works:PORT/apply"))
		}
	}
}

func TestOutcomeOfOddResponse(t *testing.T) {
	w := newFakeNet(t)
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		outcome api.Outcome
		note    string
	}{
		"Cloudflare": {status(503, "Cf-Mitigated", "challenge"), blocked,
			"Answered 503. A bot check blocks the page (Cloudflare)."},
		"AWS WAF": {status(202, "X-Amzn-Waf-Action", "challenge"), blocked,
			"Answered 202. A bot check blocks the page (AWS WAF)."},
		"Vercel": {status(429, "X-Vercel-Mitigated", "challenge"), blocked,
			"Answered 429. A bot check blocks the page (Vercel)."},
		"DataDome": {status(404, "X-Datadome", "protected"), blocked,
			"Answered 404. A bot check blocks the page (DataDome)."},
		"behind DataDome":             {status(200, "X-Datadome", "protected"), reachable, "Answered 200."},
		"redirect without a location": {status(302), unreachable, "Answered 302. Unexpected status."},
		"multiple choices":            {status(300), unreachable, "Answered 300. Unexpected status."},
	} {
		w.on("/apply", c.handler)
		require.Equal(t, result{outcome: c.outcome, note: c.note}, w.try("http://maple.works:PORT/apply"), name)
	}
}

func TestOutcomeOfRedirect(t *testing.T) {
	w := newFakeNet(t)
	w.on("/gone", status(404))
	w.on("/wall", status(403))
	w.on("/broken", status(502))
	for _, c := range []struct {
		name, to string
		outcome  api.Outcome
		why      string
		link     string // empty: maple.works/apply
	}{
		{"another page", "/careers/apply", reachable, "", ""},
		{"another host of the site", "http://jobs.maple.works:PORT/x", reachable, "", ""},
		{"another site", "http://birch.works:PORT/apply", needsReview, "It leads to another site, birch.works.", ""},
		{"another customer of the same hosting service", "http://birch.github.io:PORT/apply", needsReview,
			"It leads to another site, birch.github.io.", "maple.github.io:PORT/apply"},
		{"a site under a two-part suffix", "http://b.co.uk:PORT/apply", needsReview,
			"It leads to another site, b.co.uk.", "a.co.uk:PORT/apply"},
		{"another site that blocks", "http://birch.works:PORT/wall", needsReview,
			"It leads to another site, birch.works.", ""},
		{"another site that has no such page", "http://birch.works:PORT/gone", closed, "", ""},
		{"another site that is down", "http://birch.works:PORT/broken", unreachable, "", ""},
		{"an address instead of a name", "http://127.0.0.1:PORT/apply", needsReview,
			"It leads to another site, 127.0.0.1.", ""},
		{"the home page", "/", needsReview, "It leads to the home page.", ""},
		{"the home page with a query", "/?from=apply#top", needsReview, "It leads to the home page.", ""},
		{"the home page of another host of the site", "http://www.maple.works:PORT", needsReview,
			"It leads to the home page.", ""},
		{"the home page in a language", "/en-ca/", needsReview, "It leads to the home page.", ""},
		{"the index", "/index.html", needsReview, "It leads to the home page.", ""},
		{"from home page to home page", "http://www.maple.works:PORT/", reachable, "", "maple.works:PORT/"},
		{"from the home page to a page", "/welcome", reachable, "", "maple.works:PORT/"},
		{"mail", "mailto:jobs@maple.works", needsReview, "not an http or https address", ""},
		{"a file", "file:///etc/passwd", needsReview, "not an http or https address", ""},
		{"gopher", "gopher://maple.works:PORT/", needsReview, "not an http or https address", ""},
		{"a user name", "http://me:secret@maple.works:PORT/x", needsReview, "contains a user name", ""},
		{"another port", "http://maple.works:22/x", needsReview, "uses a port that is not allowed", ""},
		{"a reserved name", "http://localhost:PORT/x", needsReview, "host name is reserved", ""},
		{"a name of the cluster", "http://vault.internal:PORT/x", needsReview, "host name is reserved", ""},
		{"a waiting room", "http://maple.queue-it.net:PORT/?c=maple", blocked, "blocked by a bot check", ""},
		{"the same name in another alphabet's form", "http://b\u00fccher.works:PORT/x", reachable,
			"", "xn--bcher-kva.works:PORT/apply"},
		{"invalid UTF-8", "http://\xff\x9b31m.works:PORT/x", needsReview, "It leads to another site, xn--", ""},
		{"itself", "/apply", unreachable, "redirect loop", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.on("/apply", func(out http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.Host, "birch") || strings.HasPrefix(r.Host, "b.co") ||
					strings.HasPrefix(r.Host, "127.") {
					return
				}
				w.redirect(302, c.to)(out, r)
			})
			w.on("maple.works/", status(200))
			if c.link == "maple.works:PORT/" {
				w.on("maple.works/", w.redirect(301, c.to))
			}
			got := w.try("http://" + cmp.Or(c.link, "maple.works:PORT/apply"))
			require.Equal(t, c.outcome, got.outcome, got.note)
			require.Contains(t, got.note, "with a redirect to ")
			require.Contains(t, got.note, c.why)
			require.NotContains(t, got.note, "secret")
			require.NotContains(t, got.note, "?", "a query may contain session secrets")
		})
	}
}

func TestFiveRedirectsAreFollowedAndNoted(t *testing.T) {
	w := newFakeNet(t)
	for i := range 7 {
		w.on(fmt.Sprintf("/%d", i), w.redirect(302, fmt.Sprintf("/%d?token=secret", i+1)))
	}
	w.on("/5", status(200))
	got := w.try("http://maple.works:PORT/0")
	require.Equal(t, reachable, got.outcome)
	var chain []string
	for i := range 5 {
		chain = append(chain, w.fill(fmt.Sprintf("answered 302 with a redirect to http://maple.works:PORT/%d", i+1)))
	}
	require.Equal(t, "A"+strings.Join(chain, ", then ")[1:]+", then answered 200.", got.note)

	w.on("/5", w.redirect(302, "/6"))
	w.mu.Lock()
	w.requests = nil
	w.mu.Unlock()
	got = w.try("http://maple.works:PORT/0")
	require.Equal(t, unreachable, got.outcome)
	require.Contains(t, got.note, "more than 5 redirects")
	require.Len(t, w.paths("maple.works"), 6)

	w.on("/a", w.redirect(302, "/b"))
	w.on("/b", w.redirect(302, "/a"))
	got = w.try("http://maple.works:PORT/a")
	require.Equal(t, unreachable, got.outcome)
	require.Contains(t, got.note, "redirect loop")
	require.False(t, got.retry, "a retry would end in the same loop")
}

func TestRequestSendsUserAgentAndNoPersonalHeaders(t *testing.T) {
	w := newFakeNet(t)
	w.on("/apply", w.redirect(302, "/next"))
	require.Equal(t, reachable, w.try("http://maple.works:PORT/apply?ref=1").outcome)
	require.Equal(t, []string{"/apply?ref=1", "/next"}, w.paths("maple.works"))
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Len(t, w.requests, 3, "robots.txt must be requested once")
	for _, r := range w.requests {
		require.Equal(t, http.MethodGet, r.Method)
		require.Equal(t, "OpportunityLinkCheck/1.0 (+https://api.checks.works/docs/link-checker)", r.UserAgent())
		for name := range r.Header {
			require.Contains(t, []string{"User-Agent", "Accept", "Accept-Encoding", "Accept-Language", "Connection"},
				name)
		}
	}
}

func TestNoteIsSanitized(t *testing.T) {
	require.Equal(t, "a?b?c??d", sanitizeNote("a\x00b\x1bc\u009b\xffd"))
	require.Equal(t, "Fermé ?au public", sanitizeNote("Fermé \u202eau public"))
	require.Len(t, sanitizeNote(strings.Repeat("x", 3*api.MaxText)), api.MaxText)
}
