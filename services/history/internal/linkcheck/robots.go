package linkcheck

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	maxRobotsSize = 500 << 10        // bytes; RFC 9309 requires at least 500 KiB
	robotsTTL     = 24 * time.Hour   // lifetime of fetched rules
	failureTTL    = 30 * time.Second // lifetime of a failure to fetch rules
	// maxDelay is the longest delay between two requests of a run. A host with a longer one gets
	// one link in each run.
	maxDelay = time.Minute
	// overloadedGap is the gap of a host that responded with 429. It leaves the host's other links
	// to the next run.
	overloadedGap = maxDelay + time.Second
)

// rules are the rules for this checker in the robots.txt of an origin.
type rules struct {
	lines      []robotsRule
	overloaded bool          // the host responded with 429; send it no further request
	delay      time.Duration // from Crawl-delay
	expires    time.Time
	err        error // the failure to fetch the file
}

// allows reports whether the rules allow a request for u: the most specific rule decides, and Allow
// if there are two. Without a matching rule, u is allowed.
func (r rules) allows(u *url.URL) bool {
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	if u.RawQuery != "" || u.ForceQuery {
		path += "?" + u.RawQuery
	}
	path = normalPath(path, false)
	best := robotsRule{allow: true}
	for _, rule := range r.lines {
		if (rule.octets > best.octets || rule.octets == best.octets && rule.allow) && rule.matches(path) {
			best = rule
		}
	}
	return best.allow
}

// origin is a scheme, host and port, which together have one robots.txt.
type origin struct {
	lock  chan struct{} // full while a goroutine reads or fetches the rules
	rules rules
}

// rules returns the rules of the origin of u. It fetches them if they are missing or expired. It
// returns an error only if the run ended; a failure to fetch the file is in rules.err.
func (c *Checker) rules(ctx, hard context.Context, u *url.URL) (rules, error) {
	key := u.Scheme + "://" + hostname(u) + ":" + strconv.Itoa(int(port(u)))
	stored, _ := c.origins.LoadOrStore(key, &origin{lock: make(chan struct{}, 1)})
	o := stored.(*origin)
	select {
	case o.lock <- struct{}{}:
		defer func() { <-o.lock }()
	case <-ctx.Done():
		return rules{}, errStopped
	}
	if c.now().Before(o.rules.expires) {
		return o.rules, nil
	}
	r, err := c.fetchRules(ctx, hard, u)
	if err != nil {
		return rules{}, err
	}
	r.expires = c.now().Add(robotsTTL)
	if r.err != nil {
		r.expires = c.now().Add(failureTTL)
	}
	if r.delay > 0 {
		c.host(u).raiseGap(r.delay)
	}
	o.rules = r
	return r, nil
}

// fetchRules requests the robots.txt of the origin of u and follows redirects.
func (c *Checker) fetchRules(ctx, hard context.Context, u *url.URL) (rules, error) {
	at := &url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/robots.txt"}
	for range maxRedirects + 1 {
		resp, err := c.get(ctx, hard, at, false, nil, nil)
		switch {
		case ended(err):
			return rules{}, err
		case err != nil && at.Host == u.Host:
			return rules{err: err}, nil
		case err != nil: // a redirect to an unreachable host counts as no robots.txt
			return rules{}, nil
		case resp.status == http.StatusTooManyRequests:
			return rules{overloaded: true}, nil
		case resp.status/100 == 5:
			return rules{err: serverError(resp.status)}, nil
		case resp.status/100 == 2:
			return parseRules(resp.body), nil
		case resp.location == nil || urlProblem(resp.location, c.cfg.Ports) != "" || reserved(hostname(resp.location)):
			return rules{}, nil // 4xx means no robots.txt (RFC 9309, 2.3.1.3)
		}
		at = resp.location
	}
	return rules{}, nil
}

// robotsRule is an Allow or Disallow line that names the paths that start with pattern.
type robotsRule struct {
	pattern string // in normal form
	octets  int    // of the pattern in percent-encoding; the longest matching pattern decides
	allow   bool
}

// parseRules returns the rules for this checker in a robots.txt (RFC 9309, section 2.2): those of
// every group that names it, otherwise those of every group for all crawlers.
func parseRules(text []byte) rules {
	var own, all rules
	named := false     // a group names this checker
	var group []*rules // that the lines of the current group are for
	hasRules := false  // the current group has
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	for line := range bytes.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		bare, _, _ := strings.Cut(string(line), "#")
		name, value, _ := strings.Cut(bare, ":")
		name, value = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value)
		switch name {
		case "user-agent":
			if hasRules {
				group, hasRules = nil, false
			}
			token := value[:len(value)-len(strings.TrimLeft(value, tokenLetters))]
			if strings.EqualFold(token, agentName) {
				group, named = append(group, &own), true
			} else if value == "*" {
				group = append(group, &all)
			}
		case "allow", "disallow":
			if hasRules = true; value == "" { // an empty pattern matches nothing
				continue
			}
			for _, r := range group {
				r.lines = append(r.lines, newRule(value, name == "allow"))
			}
		case "crawl-delay": // not in the RFC, so it must not end the list of user agents
			for _, r := range group {
				r.delay = max(r.delay, crawlDelay(value))
			}
		}
	}
	if named {
		return own
	}
	return all
}

// tokenLetters are the characters of a product token. What follows, such as a version, is ignored.
const tokenLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-"

func crawlDelay(value string) time.Duration {
	seconds, err := strconv.ParseFloat(value, 64)
	if err != nil || !(seconds >= 0) { //nolint:staticcheck // also true for NaN
		return 0
	}
	return time.Duration(min(seconds, day.Seconds()) * float64(time.Second))
}

func newRule(value string, allow bool) robotsRule {
	if value[0] != '/' && value[0] != '*' {
		value = "/" + value
	}
	rule := robotsRule{pattern: normalPath(value, true), allow: allow}
	for _, r := range rule.pattern {
		rule.octets++
		if r >= utf8.RuneSelf && r != wildcard && r != pathEnd {
			rule.octets += 2
		}
	}
	return rule
}

// Characters of a normal form that no byte of a path becomes.
const (
	wildcard     = '\uE000' // "*" in a pattern
	pathEnd      = '\uE001' // "$" at the end of a pattern
	encodedSlash = '\uE002' // "%2F" before the query, where it is no separator
	encodedQuery = '\uE003' // "%3F" before the query
)

// normalPath returns a path with its query, or a pattern, in a form in which equivalent ones are
// equal (RFC 9309, section 2.2.2): a character for each byte, whether it was percent-encoded or
// not.
func normalPath(path string, pattern bool) string {
	var out strings.Builder
	query := false
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c == '%' && i+2 < len(path) {
			if b, err := strconv.ParseUint(path[i+1:i+3], 16, 8); err == nil {
				i += 2
				switch {
				case b == '/' && !query:
					out.WriteRune(encodedSlash)
				case b == '?' && !query:
					out.WriteRune(encodedQuery)
				default:
					out.WriteRune(rune(b)) //nolint:gosec // 8 bits
				}
				continue
			}
		}
		switch {
		case pattern && c == '*':
			out.WriteRune(wildcard)
		case pattern && c == '$' && i == len(path)-1:
			out.WriteRune(pathEnd)
		default:
			query = query || c == '?'
			out.WriteRune(rune(c))
		}
	}
	return out.String()
}

func (r robotsRule) matches(path string) bool {
	pattern, whole := strings.CutSuffix(r.pattern, string(pathEnd))
	first, rest, wild := strings.Cut(pattern, string(wildcard))
	if !strings.HasPrefix(path, first) {
		return false
	}
	path = path[len(first):]
	for wild {
		var part string
		part, rest, wild = strings.Cut(rest, string(wildcard))
		if !wild && whole {
			return strings.HasSuffix(path, part)
		}
		at := strings.Index(path, part)
		if at < 0 {
			return false
		}
		path = path[at+len(part):]
	}
	return !whole || path == ""
}
