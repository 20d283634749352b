package simulation

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// plan describes a run, apart from the fates of messages.
type plan struct {
	seed    uint64
	noise   int           // percent of messages with a fault
	start   time.Duration // since midnight
	actions []action      // in order
}

// action is a call, a command of an operator, or a fault.
type action struct {
	at      time.Duration // since the end of the warm-up
	kind    string
	gateway int
	account int
	key     int           // of the account, or the tier to set
	answer  string        // of the service to a call: a status, or "cut"
	by      time.Duration // step of a clock, or length of an outage
}

const gateways, accounts, keysEach = 3, 2, 2

// warmUp is the time to start the gateways.
const warmUp = 200 * time.Millisecond

func gatewayName(i int) string    { return fmt.Sprint("gateway-", i) }
func accountID(i int) string      { return fmt.Sprintf("acc_%c", 'a'+i) }
func keyID(account, i int) string { return fmt.Sprintf("%c%d", 'a'+account, i) }

// successor returns the key that replaces a rotated one.
func successor(key string) string { return key + "-next" }

func (a action) String() string {
	text := fmt.Sprintf("%10.6fs %s", a.at.Seconds(), a.kind)
	switch a.kind {
	case "call":
		return fmt.Sprint(text, " of ", accountID(a.account), " at ", gatewayName(a.gateway), ", service: ", a.answer)
	case "revoke", "rotate":
		return text + " " + keyID(a.account, a.key)
	case "suspend", "resume":
		return text + " " + accountID(a.account)
	case "tier":
		return fmt.Sprint(text, " of ", accountID(a.account), ": ", a.key)
	case "restart", "gateway clock":
		text += " " + gatewayName(a.gateway)
	}
	if a.by != 0 {
		text += " " + a.by.String()
	}
	return text
}

// newPlan draws a plan: bursts of calls, commands, and faults. Other calls meet each command and
// fault.
func newPlan(seed uint64) plan {
	r := rand.New(rand.NewPCG(seed, 0))
	upTo := func(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }
	p := plan{seed: seed, noise: []int{0, 3, 8}[r.IntN(3)], start: 12 * time.Hour}
	gateway := 0
	call := func(at time.Duration, account int) {
		if r.IntN(2) == 0 {
			gateway = r.IntN(gateways)
		}
		answer := [...]string{"200", "200", "200", "200", "304", "404", "400", "402", "500", "cut"}[r.IntN(10)]
		p.actions = append(p.actions, action{at: at, kind: "call", gateway: gateway, account: account,
			key: r.IntN(keysEach + 1), answer: answer})
	}
	at := time.Duration(0)
	for range 2 + r.IntN(3) {
		at += []time.Duration{upTo(50 * time.Millisecond), upTo(5 * time.Second), upTo(30 * time.Second),
			time.Minute - upTo(30*time.Millisecond)}[r.IntN(4)]
		gap, account := []time.Duration{300 * time.Microsecond, 20 * time.Millisecond}[r.IntN(2)], r.IntN(accounts)
		for range 3 + r.IntN(3) {
			if at += upTo(gap); r.IntN(2) == 0 {
				account = r.IntN(accounts)
			}
			call(at, account)
		}
	}
	length := at
	add := func(kinds ...string) {
		a := action{at: upTo(length), kind: kinds[r.IntN(len(kinds))], gateway: r.IntN(gateways), account: r.IntN(accounts),
			key: r.IntN(keysEach)}
		switch a.kind {
		case "tier":
			a.key = r.IntN(len(tiers))
		case "redis clock", "gateway clock":
			a.by = []time.Duration{time.Hour, -time.Hour}[r.IntN(2)]
		case "authquota away":
			a.by = upTo(20 * time.Second)
		case "swap":
			lag := upTo(2 * time.Second)
			during := func(at time.Duration, kind string) {
				p.actions = append(p.actions, action{at: max(0, at), kind: kind, account: a.account, key: a.key})
			}
			switch during(a.at-lag, "copy"); r.IntN(4) { // the swap may lose the increment of an epoch
			case 0, 1:
				during(a.at-lag/2, "revoke")
			case 2:
				during(a.at-lag-50*time.Millisecond, "suspend")
				call(max(0, a.at-lag-20*time.Millisecond), a.account)
				during(a.at-lag/2, "resume")
			}
		}
		p.actions = append(p.actions, a)
		for range 1 + r.IntN(3) {
			call(max(0, a.at+upTo(50*time.Millisecond)-10*time.Millisecond), a.account)
		}
	}
	for range r.IntN(4) {
		add("revoke", "rotate", "suspend", "resume", "tier")
	}
	for range r.IntN(4) {
		add("restart", "swap", "redis clock", "redis clock", "gateway clock", "gateway clock", "authquota away")
	}
	slices.SortStableFunc(p.actions, func(a, b action) int { return cmp.Compare(a.at, b.at) })
	if r.IntN(4) == 0 { // midnight comes soon after one of the actions
		p.start = 24*time.Hour - warmUp - p.actions[r.IntN(len(p.actions))].at - upTo(10*time.Millisecond)
	}
	return p
}

// has reports whether the plan has an action of one of the kinds.
func (p plan) has(kinds ...string) bool {
	return slices.ContainsFunc(p.actions, func(a action) bool { return slices.Contains(kinds, a.kind) })
}
