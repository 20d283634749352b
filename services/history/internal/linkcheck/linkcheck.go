// Package linkcheck requests the application link of every published listing once a day and records
// the outcome. In the same runs it reads the pages that listings cite. Checker.Once makes a run.
//
// It is polite to other people's servers: it sends one request at a time to a host, with a gap in
// between, follows robots.txt, and identifies itself with a user agent that links to a page about
// the checker. It is also the only part of the system that requests arbitrary URLs from data. The
// transport therefore checks every address when it dials, and the checker reads at most
// pagetext.MaxBody of a page.
//
// A page is read once a day, or only until it responded if no published review depends on it. Its
// text is stored for curators; reading records no event.
//
// A run claims a link in the store before it requests it, so no link is requested twice in a day.
// If the process is killed between claim and record, the check is lost and the next run counts it
// as lost. See docs/decisions.
package linkcheck

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// agentName is the user agent token in robots.txt files.
const agentName = "OpportunityLinkCheck"

// Checker checks the links of one run. It remembers the gaps and rules of the hosts, so every run
// needs a new one.
type Checker struct {
	cfg       Config
	transport http.RoundTripper
	now       func() time.Time
	agent     string
	running   chan struct{} // holds one element per request in flight
	// earliest first request to any host: a previous process may have sent a request just before
	// this one started
	start    time.Time
	hosts    sync.Map    // hostname -> *host
	origins  sync.Map    // scheme, hostname and port -> *origin
	resolves atomic.Bool // a name was resolved, or is known not to exist: the resolver works
}

// New returns a checker for one run. It returns ErrNoContact if site owners could not open the
// contact page.
func New(cfg Config, transport http.RoundTripper, now func() time.Time) (*Checker, error) {
	if err := cfg.CheckContact(); err != nil {
		return nil, err
	}
	return &Checker{
		cfg: cfg, transport: transport, now: now,
		agent:   agentName + "/1.0 (+" + cfg.Contact + ")",
		running: make(chan struct{}, cfg.Concurrency),
		start:   now().Add(cfg.Gap),
	}, nil
}
