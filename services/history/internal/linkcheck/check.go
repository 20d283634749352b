package linkcheck

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/history/internal/pagetext"
)

const maxRedirects = 5 // of one link

type result struct {
	outcome api.Outcome
	note    string
	retry   bool          // whether another attempt may have another outcome
	wait    time.Duration // minimum time before a retry, from Retry-After

	cause *api.Cause // of the outcome needs-review, nil if no review can answer it

	unresolved bool // the resolver failed; it did not say that the name does not exist

	page   *pagetext.Page // nil if no text was read
	unread string         // why a page that responded has no text, as a sentence
}

type visit struct {
	link  *url.URL
	steps []string // the redirects so far, for the note

	jar  http.CookieJar  // of this visit alone
	seen map[string]bool // by request
}

// request identifies a request for u by its URL and its cookies: a site may set a cookie and
// redirect to the same URL.
func (v *visit) request(u *url.URL) string {
	bare := *u
	bare.Fragment, bare.RawFragment = "", ""
	id := bare.String()
	for _, cookie := range v.jar.Cookies(u) {
		id += "\n" + cookie.String()
	}
	return id
}

func (v *visit) end(outcome api.Outcome, at *url.URL, last string, retry bool) result {
	var cause *api.Cause
	sentence := strings.Join(append(slices.Clone(v.steps), last), ", then ")
	note := strings.ToUpper(sentence[:1]) + sentence[1:] + "."
	if outcome == api.OutcomeReachable || outcome == api.OutcomeBlocked {
		if to := misdirection(v.link, at); to != "" &&
			(outcome == api.OutcomeReachable || !under(hostname(at), botCheckHosts)) {
			outcome, note, cause = api.OutcomeNeedsReview, note+" "+to, &api.Cause{Text: to}
		}
	}
	return result{outcome: outcome, note: note, retry: retry, cause: cause}
}

// try requests a link and follows its redirects as far as allowed. It calls claim right before the
// first request to the link itself. It returns an error only if the run ended or claim failed.
func (c *Checker) try(ctx, hard context.Context, address string, claim func() error) (result, error) {
	at, err := url.Parse(address)
	if err != nil { // imports accept valid URLs only, so this is unlikely
		return result{outcome: api.OutcomeNeedsReview, note: "The link is not a valid URL."}, claim()
	}
	v := visit{link: at}
	if why := urlProblem(at, c.cfg.Ports); why != "" {
		return result{outcome: api.OutcomeNeedsReview, note: "Not requested: the link " + why + "."}, claim()
	}
	v.jar, _ = cookiejar.New(&cookiejar.Options{PublicSuffixList: publicsuffix.List}) // never fails
	v.seen = map[string]bool{}
	first := claim
	for {
		v.seen[v.request(at)] = true
		r, err := c.rules(ctx, hard, at)
		if err != nil {
			return result{}, err
		}
		if res, over := v.applyRules(at, r); over {
			if first != nil {
				return res, first()
			}
			return res, nil
		}
		resp, err := c.get(ctx, hard, at, true, v.jar, first)
		switch {
		case ended(err), errors.Is(err, errClaimed):
			return result{}, err
		case err != nil:
			return v.noResponse(at, err), nil
		}
		ctx, first = hard, nil // after the first request, only hard ends the visit
		if resp.location == nil {
			outcome, why := classify(resp.status, resp.header)
			if resp.status == http.StatusTooManyRequests {
				c.host(at).raiseGap(overloadedGap)
			}
			res := v.end(outcome, at, fmt.Sprintf("answered %d%s", resp.status, why),
				outcome == api.OutcomeUnreachable && why == "")
			res.wait = retryAfter(resp.header, c.now())
			if outcome == api.OutcomeReachable { // otherwise it is the page of a bot check
				res.page, res.unread = resp.page, resp.unread
			}
			return res, nil
		}
		v.steps = append(v.steps, fmt.Sprintf("answered %d with a redirect to %s", resp.status, noteURL(resp.location)))
		next := resp.location
		if res, over := c.checkRedirect(&v, next); over {
			return res, nil
		}
		at = next
	}
}

// checkRedirect returns the result of a visit that must not follow a redirect to next. ended is
// false if it may.
func (c *Checker) checkRedirect(v *visit, next *url.URL) (res result, ended bool) {
	switch {
	case under(hostname(next), botCheckHosts):
		return v.end(api.OutcomeBlocked, next, "blocked by a bot check", false), true
	case urlProblem(next, c.cfg.Ports) != "":
		return v.end(api.OutcomeNeedsReview, next, "not followed: that URL "+urlProblem(next, c.cfg.Ports), false), true
	case reserved(hostname(next)):
		return v.end(api.OutcomeNeedsReview, next, "not followed: that host name is reserved", false), true
	case v.seen[v.request(next)]:
		return v.end(api.OutcomeUnreachable, next, "not followed: redirect loop", false), true
	case len(v.steps) > maxRedirects:
		return v.end(api.OutcomeUnreachable, next, fmt.Sprintf("not followed: more than %d redirects", maxRedirects),
			false), true
	}
	return result{}, false
}

// applyRules returns the result of a visit that the rules of an origin end at the URL at. ended is
// false if they allow it.
func (v *visit) applyRules(at *url.URL, r rules) (res result, ended bool) {
	var server serverError
	switch {
	case errors.As(r.err, &server):
		return v.end(api.OutcomeUnreachable, at, fmt.Sprintf("answered %d for its robots.txt, so the page was not requested",
			int(server)), true), true
	case r.err != nil:
		return v.noResponse(at, r.err), true
	case r.overloaded:
		return v.end(api.OutcomeBlocked, at, "answered 429 for its robots.txt, so the page was not requested", false),
			true
	case !r.allows(at):
		return v.end(api.OutcomeBlocked, at, "not requested: its robots.txt disallows the page", false), true
	}
	return result{}, false
}

// noResponse returns the result of a visit that failed with err at the URL at. A link to a
// non-public address is unreachable to everyone. A redirect to one needs review, because no
// application page can be there.
func (v *visit) noResponse(at *url.URL, err error) result {
	outcome := api.OutcomeUnreachable
	if forbidden(err) && len(v.steps) > 0 {
		outcome = api.OutcomeNeedsReview
	}
	res := v.end(outcome, at, "not reached: "+failureReason(err), !forbidden(err))
	res.unresolved = resolverFailed(err)
	return res
}
