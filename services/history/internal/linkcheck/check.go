package linkcheck

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
)

// maxRedirects is how many redirects of one link are followed.
const maxRedirects = 5

// finding is what one try of a link came to.
type finding struct {
	outcome api.Outcome
	note    string
	again   bool          // another try may come to something else
	wait    time.Duration // what the host wants to pass before that
}

// visit is one try of a link on its way.
type visit struct {
	link  *url.URL
	steps []string // the redirects so far, for the note
}

// end is the finding with which a visit ends at the address at.
func (v *visit) end(outcome api.Outcome, at *url.URL, last string, again bool, why ...string) finding {
	if outcome == api.OutcomeReachable || outcome == api.OutcomeBlocked {
		if to := away(v.link, at); to != "" && (outcome == api.OutcomeReachable || !wallHost(hostname(at))) {
			outcome, why = api.OutcomeNeedsReview, append(why, to)
		}
	}
	sentence := strings.Join(append(slices.Clone(v.steps), last), ", then ")
	note := strings.Join(append([]string{strings.ToUpper(sentence[:1]) + sentence[1:] + "."}, why...), " ")
	return finding{outcome: outcome, note: note, again: again}
}

// try follows a link to its end, or to where it must not be followed. claim is called right before the link itself is asked.
// The error is that of a stopped run or of claim.
func (c *Checker) try(ctx, hard context.Context, address string, claim func() error) (finding, error) {
	at, err := url.Parse(address)
	if err != nil { // was valid when it was imported
		return finding{outcome: api.OutcomeNeedsReview, note: "The link cannot be read."}, claim()
	}
	v := visit{link: at}
	if why := refusal(at, c.cfg.Ports); why != "" {
		return finding{outcome: api.OutcomeNeedsReview, note: "Not asked: the link " + why + "."}, claim()
	}
	seen := map[string]bool{}
	first := claim
	for {
		seen[at.String()] = true
		r, err := c.rules(ctx, hard, at)
		if err != nil {
			return finding{}, err
		}
		if found, over := v.ruled(at, r); over {
			if first != nil {
				return found, first()
			}
			return found, nil
		}
		a, err := c.ask(ctx, hard, at, 0, first)
		switch {
		case ended(err), errors.Is(err, errClaim):
			return finding{}, err
		case err != nil:
			return v.lost(at, err), nil
		}
		ctx, first = hard, nil // the link was asked: what follows is brought to its end
		if a.location == nil {
			outcome, why := answered(a.status, a.header)
			if a.status == http.StatusTooManyRequests {
				c.hosts.of(at).slow(enough)
			}
			var more []string
			if why != "" {
				more = append(more, why)
			}
			found := v.end(outcome, at, fmt.Sprintf("answered %d", a.status), outcome == api.OutcomeUnreachable && why == "", more...)
			found.wait = retryAfter(a.header, c.now())
			return found, nil
		}
		v.steps = append(v.steps, fmt.Sprintf("answered %d with a redirect to %s", a.status, shown(a.location)))
		next := a.location
		next.Fragment, next.RawFragment = "", ""
		switch {
		case wallHost(hostname(next)):
			return v.end(api.OutcomeBlocked, next, "a wall against programs", false), nil
		case refusal(next, c.cfg.Ports) != "":
			return v.end(api.OutcomeNeedsReview, next, "not followed: that "+refusal(next, c.cfg.Ports), false), nil
		case reserved(hostname(next)):
			return v.end(api.OutcomeNeedsReview, next, "not followed: that name is not on the internet", false), nil
		case seen[next.String()]:
			return v.end(api.OutcomeUnreachable, next, "the redirects go round in a circle", false), nil
		case len(v.steps) > maxRedirects:
			return v.end(api.OutcomeUnreachable, next, fmt.Sprintf("not followed: more than %d redirects", maxRedirects), false), nil
		}
		at = next
	}
}

// ruled ends a visit where the rules of an origin do.
func (v *visit) ruled(at *url.URL, r rules) (found finding, over bool) {
	var server serverError
	switch {
	case errors.As(r.err, &server):
		return v.end(api.OutcomeUnreachable, at, fmt.Sprintf("answered %d for its robots.txt, so the page was not asked for", int(server)), true), true
	case r.err != nil:
		return v.lost(at, r.err), true
	case r.wait:
		return v.end(api.OutcomeBlocked, at, "answered 429 for its robots.txt, so the page was not asked for", false), true
	case !r.allows(at):
		return v.end(api.OutcomeBlocked, at, "not asked: its robots.txt keeps programs from the page", false), true
	}
	return finding{}, false
}

// lost ends a visit without an answer. An address that must not be dialled is one that nobody outside reaches; behind a redirect
// it is also a place where no application page can be, so a curator looks at it.
func (v *visit) lost(at *url.URL, err error) finding {
	outcome := api.OutcomeUnreachable
	if forbidden(err) && len(v.steps) > 0 {
		outcome = api.OutcomeNeedsReview
	}
	return v.end(outcome, at, "not reached: "+failed(err), !forbidden(err))
}
