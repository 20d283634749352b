package simulation

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// network carries all messages of a run. The fate of a message depends on the seed, its sender and
// its content, not on the order in which goroutines send. Delays differ by nanoseconds, so no two
// messages arrive together, and the bubble's clock puts them in order.
type network struct {
	seed  uint64
	noise int // percent of messages with a fault

	mu     sync.Mutex
	calm   bool           // no faults now
	sent   map[string]int // messages by sender and content
	faults []disturbance
}

// disturbance is a fault after which calls may fail.
type disturbance struct {
	kind  string
	at    time.Time
	until time.Time
	on    string // name of a gateway, or begins with one; empty: all
}

// fate describes the travel of one message.
type fate struct {
	request, reply time.Duration // of travel
	lost           bool          // never arrives
	unanswered     bool          // arrives; its reply is lost
	closed         bool          // the sender of a message without a reply notices: its connection is closed
	twice          bool          // arrives twice; only over HTTP, where proxies between services repeat requests
}

func (n *network) fate(from, content string) fate {
	n.mu.Lock()
	n.sent[from+content]++
	id, calm := fmt.Sprint(from, content, n.sent[from+content]), n.calm
	n.mu.Unlock()
	hash := fnv.New64a()
	fmt.Fprint(hash, id)
	r := rand.New(rand.NewPCG(n.seed, hash.Sum64()))
	f := fate{request: time.Duration(r.IntN(3e6)), reply: time.Duration(r.IntN(3e6)), closed: r.IntN(2) == 0}
	if calm || r.IntN(100) >= n.noise {
		return f
	}
	late, kind := time.Duration(r.IntN(5e8)), [...]string{"request lost", "reply lost", "request late", "reply late",
		"request repeated"}[r.IntN(5)]
	switch kind {
	case "request lost":
		f.lost = true
	case "reply lost":
		f.unanswered = true
	case "request late":
		f.request += late
	case "reply late":
		f.reply += late
	case "request repeated":
		f.twice = true
	}
	n.disturb(kind, from, 0)
	return f
}

// disturb records a fault that lasts for a time.
func (n *network) disturb(kind, on string, lasts time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults = append(n.faults, disturbance{kind, time.Now(), time.Now().Add(lasts), on})
}

// disturbed reports whether a fault may have made a call of a gateway fail: during the call, or
// shortly before it, so that keys were not synced or the circuit breaker was open.
func (n *network) disturbed(gateway string, start, end time.Time) bool {
	for _, f := range n.faults {
		on := f.on == "" || f.on == "authquota" || strings.HasPrefix(f.on, gateway)
		if on && f.until.After(start.Add(-15*time.Second)) && !f.at.After(end) {
			return true
		}
	}
	return false
}

var errConnection = errors.New("connection lost")

// request sends a request over HTTP, which handle handles, and waits for the response until ctx
// ends.
func request[T any](ctx context.Context, n *network, from, content string, handle func() (T, error)) (response T,
	err error) {
	f, done := n.fate(from, content), make(chan func() (T, error), 1)
	reply := func(t T, err error) { done <- func() (T, error) { return t, err } }
	go func() {
		time.Sleep(f.request)
		if f.twice {
			_, _ = handle()
		}
		got, err := response, errConnection
		if !f.lost {
			got, err = handle()
		}
		time.Sleep(f.reply)
		if missing := f.lost || f.unanswered; !missing {
			reply(got, err)
		} else if f.closed {
			reply(response, errConnection)
		}
	}()
	select {
	case result := <-done:
		return result()
	case <-ctx.Done():
		return response, ctx.Err()
	}
}
