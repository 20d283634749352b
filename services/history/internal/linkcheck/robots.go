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
	// maxRobots is how much of a robots.txt is read (RFC 9309 asks for at least 500 KiB).
	maxRobots = 500 << 10
	// robotsFor is how long one is believed, and failedFor how long it is believed that none was to be had.
	robotsFor, failedFor = 24 * time.Hour, 30 * time.Second
	// maxRules is how many lines of one are kept: a compiled rule takes many times the space of its text.
	maxRules = 10_000
	// maxDelay is the longest delay that a host may ask for between the links of one run.
	maxDelay = time.Minute
	// enough is the delay of a host that was asked too much: its other links wait for the next run.
	enough = maxDelay + time.Second
)

// rules are what the robots.txt of an origin says to us.
type rules struct {
	group *robotstxt.Group // nil: nothing is refused
	wait  bool             // the host was asked too much already: it gets no other request
	delay time.Duration
	until time.Time
	err   error // none was to be had, and why
}

// allows reports whether u may be asked.
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

// origin is a scheme, host and port with rules of its own.
type origin struct {
	turn  chan struct{} // held while the rules are read or fetched
	rules rules
}

type origins struct {
	mu  sync.Mutex
	all map[string]*origin
}

func (o *origins) of(u *url.URL) *origin {
	key := u.Scheme + "://" + hostname(u) + ":" + strconv.Itoa(int(port(u)))
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all[key] == nil {
		o.all[key] = &origin{turn: make(chan struct{}, 1)}
	}
	return o.all[key]
}

// rules are those of the origin of u, fetched where they are not known or too old. The error is that of a stopped run; of a host
// that did not answer it is in the rules.
func (c *Checker) rules(ctx, hard context.Context, u *url.URL) (rules, error) {
	o := c.origins.of(u)
	select {
	case o.turn <- struct{}{}:
		defer func() { <-o.turn }()
	case <-ctx.Done():
		return rules{}, errStopped
	}
	if c.now().Before(o.rules.until) {
		return o.rules, nil
	}
	r, err := c.fetchRules(ctx, hard, u)
	if err != nil {
		return rules{}, err
	}
	r.until = c.now().Add(robotsFor)
	if r.err != nil {
		r.until = c.now().Add(failedFor)
	}
	if r.delay > 0 {
		c.hosts.of(u).slow(r.delay)
	}
	o.rules = r
	return r, nil
}

func (c *Checker) fetchRules(ctx, hard context.Context, u *url.URL) (rules, error) {
	at := &url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/robots.txt"}
	for range maxRedirects + 1 {
		a, err := c.ask(ctx, hard, at, maxRobots, nil)
		switch {
		case ended(err):
			return rules{}, err
		case err != nil && at.Host == u.Host:
			return rules{err: err}, nil
		case err != nil: // a redirect to where nothing is: as if there were none
			return rules{}, nil
		case a.status == http.StatusTooManyRequests:
			return rules{wait: true}, nil
		case a.status/100 == 5:
			return rules{err: serverError(a.status)}, nil
		case a.status/100 == 2:
			return parseRules(a.body), nil
		case a.location == nil || refusal(a.location, c.cfg.Ports) != "" || reserved(hostname(a.location)):
			return rules{}, nil // 4xx says that there is none (RFC 9309, 2.3.1.3)
		}
		at = a.location
	}
	return rules{}, nil
}

// parseRules reads what a robots.txt says to us. A file that the library cannot read refuses nothing.
func parseRules(text []byte) rules {
	data, err := robotstxt.FromBytes(readable(text))
	if err != nil {
		return rules{}
	}
	group := data.FindGroup(agentName)
	return rules{group: group, delay: group.CrawlDelay}
}

// readable keeps the lines that mean something to us and puts right what would make the library drop the whole file: a rule
// before any agent, a delay that is no number.
func readable(text []byte) []byte {
	var out bytes.Buffer
	agent, kept := false, 0
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
			if value == "*" { // the library takes it for nothing
				value = "/"
			}
		case name == "crawl-delay":
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil || !(seconds >= 0) { //nolint:staticcheck // NaN is neither
				continue
			}
			value = strconv.FormatFloat(min(seconds, day.Seconds()), 'f', -1, 64)
		default:
			continue
		}
		if kept++; kept > maxRules {
			break
		}
		out.WriteString(name + ": " + value + "\n")
	}
	return out.Bytes()
}
