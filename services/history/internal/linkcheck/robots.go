package linkcheck

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/temoto/robotstxt"
)

const (
	maxRobotsSize = 500 << 10        // bytes; RFC 9309 requires at least 500 KiB
	robotsTTL     = 24 * time.Hour   // lifetime of fetched rules
	failureTTL    = 30 * time.Second // lifetime of a failure to fetch rules
	// maxRules limits the lines of one file. A compiled rule takes many times the memory of its text.
	maxRules = 10_000
	// maxDelay is the longest delay between two requests of a run. A host with a longer one gets one link in each run.
	maxDelay = time.Minute
	// overloadedGap is the gap of a host that responded with 429. It leaves the host's other links to the next run.
	overloadedGap = maxDelay + time.Second
)

// rules are the rules for this checker in the robots.txt of an origin.
type rules struct {
	group      *robotstxt.Group // nil: everything is allowed
	overloaded bool             // the host responded with 429; send it no further request
	delay      time.Duration    // from Crawl-delay
	expires    time.Time
	err        error // the failure to fetch the file
}

// allows reports whether the rules allow a request for u.
func (r rules) allows(u *url.URL) bool {
	if r.group == nil {
		return true
	}
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	if u.RawQuery != "" {
		path += "?" + u.RawQuery
	}
	return r.group.Test(path)
}

// origin is a scheme, host and port, which together have one robots.txt.
type origin struct {
	lock  chan struct{} // full while a goroutine reads or fetches the rules
	rules rules
}

type origins struct {
	mu  sync.Mutex
	all map[string]*origin
}

func (o *origins) get(u *url.URL) *origin {
	key := u.Scheme + "://" + hostname(u) + ":" + strconv.Itoa(int(port(u)))
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all[key] == nil {
		o.all[key] = &origin{lock: make(chan struct{}, 1)}
	}
	return o.all[key]
}

// rules returns the rules of the origin of u. It fetches them if they are missing or expired. It returns an error only if the run
// ended; a failure to fetch the file is in rules.err.
func (c *Checker) rules(ctx, hard context.Context, u *url.URL) (rules, error) {
	o := c.origins.get(u)
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
		c.hosts.get(u).raiseGap(r.delay)
	}
	o.rules = r
	return r, nil
}

// fetchRules requests the robots.txt of the origin of u and follows redirects.
func (c *Checker) fetchRules(ctx, hard context.Context, u *url.URL) (rules, error) {
	at := &url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/robots.txt"}
	for range maxRedirects + 1 {
		resp, err := c.get(ctx, hard, at, false, nil)
		switch {
		case runEnded(err):
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

// parseRules returns the rules for this checker in a robots.txt. A file that the library cannot parse allows everything.
func parseRules(text []byte) rules {
	data, err := robotstxt.FromBytes(sanitizeRules(text))
	if err != nil {
		return rules{}
	}
	group := data.FindGroup(agentName)
	return rules{group: group, delay: group.CrawlDelay}
}

// sanitizeRules drops irrelevant lines, and lines for which the library would reject the whole file: rules before the first
// user agent, and delays that are not numbers.
func sanitizeRules(text []byte) []byte {
	var out bytes.Buffer
	agent, lines := false, 0
	for line := range bytes.Lines(bytes.TrimPrefix(text, []byte("\ufeff"))) {
		bare, _, _ := strings.Cut(string(line), "#")
		name, value, ok := strings.Cut(bare, ":")
		name, value = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value)
		switch {
		case !ok:
			continue
		case name == "user-agent" && value != "":
			agent = true
		case !agent:
			continue
		case name == "allow" || name == "disallow":
			if value == "*" { // which the library ignores
				value = "/"
			}
		case name == "crawl-delay":
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil || !(seconds >= 0) { //nolint:staticcheck // also true for NaN
				continue
			}
			value = strconv.FormatFloat(min(seconds, day.Seconds()), 'f', -1, 64)
		default:
			continue
		}
		if lines++; lines > maxRules {
			break
		}
		out.WriteString(name + ": " + value + "\n")
	}
	return out.Bytes()
}
