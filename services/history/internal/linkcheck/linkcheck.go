// Package linkcheck asks the application link of every published listing once a day, and tells what came of it.
//
// It is a guest on other people's machines: one request at a time to a host, with a gap between, as robots.txt allows, under a
// name that leads to a page about it. It is also the one part of the system that asks wherever data point, so every address is
// judged when it is dialled, and of an answer no more is read than its headers.
//
// A link is claimed in the store before it is asked. Whatever becomes of the run, nobody asks again before the next day: a check
// whose process is killed between claim and record is lost, and counted as such. See docs/decisions.
package linkcheck

import (
	"net/http"
	"time"
)

// agentName is what robots.txt files may call us.
const agentName = "OpportunityLinkCheck"

// Checker asks links. It remembers what the hosts of its run asked for, and is made anew for the next.
type Checker struct {
	Progress func(done, total int64) // of the links that are due; nil: not reported

	cfg       Config
	transport http.RoundTripper
	now       func() time.Time
	agent     string
	running   chan struct{} // holds an element for each request under way
	hosts     hosts
	origins   origins
}

// New makes a checker. It fails with ErrNoContact where its requests would name no page that strangers can open.
func New(cfg Config, transport http.RoundTripper, now func() time.Time) (*Checker, error) {
	if err := cfg.reachable(); err != nil {
		return nil, err
	}
	return &Checker{
		cfg: cfg, transport: transport, now: now,
		agent:   agentName + "/1.0 (+" + cfg.Contact + ")",
		running: make(chan struct{}, cfg.Concurrency),
		hosts:   hosts{gap: cfg.Gap, from: now().Add(cfg.Gap), all: map[string]*host{}},
		origins: origins{all: map[string]*origin{}},
	}, nil
}
