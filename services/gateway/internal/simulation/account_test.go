package simulation

import (
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// state is an account as its clients can know it: the model that Porcupine checks. While a command
// of an operator runs, some gateways may apply its change and others not, so a state has the value
// before it and the one after it.
type state struct {
	tier, next int8 // next: being set; otherwise -1
	suspended  progress
	revoked    [keysEach]progress
	used       [4]int8 // calls by day
	refundable uint64  // calls whose charge has to be refunded
}

// progress is that of a change.
type progress int8

const (
	no progress = iota
	changing
	yes
)

// transition returns the states to which a part of a call or a command leads; none, if it is
// impossible.
type transition func(state) []state

var model = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{state{next: -1}} },
	Step: func(s, do, _ any) (next []any) {
		for _, to := range do.(transition)(s.(state)) {
			next = append(next, to)
		}
		return next
	},
}).ToModel()

// history returns the parts of the calls and commands of an account, each with the time in which it
// took effect: while its caller waited, or any time later if a fault left its result open.
func (w *world) history(of int) (history []porcupine.Operation) {
	add := func(from, to time.Time, ends bool, do transition) {
		op := porcupine.Operation{Input: do, Call: from.UnixNano(), Return: math.MaxInt64}
		if ends {
			op.Return = to.UnixNano()
		}
		history = append(history, op)
	}
	at := w.events[0].start
	add(at, at, true, func(s state) []state { s.tier = int8(of); return []state{s} })
	var days []int
	for _, day := range w.days() {
		days = append(days, w.dayIndex(day))
	}
	for _, e := range w.events {
		switch {
		case e.account != of:
		case e.kind != "call":
			add(e.start, e.start, true, func(s state) []state { return []state{e.command(s, false)} })
			add(e.end, e.end, true, func(s state) []state { return []state{e.command(s, !e.unknown)} })
		default:
			c := part{e, w.net.disturbed(gatewayName(e.gateway), e.start, e.end), !w.has("swap"), days}
			if e.day != "" {
				c.days = []int{w.dayIndex(e.day)}
			}
			if c.exact || !e.uncertain() {
				add(e.start, e.end, !e.uncertain() || !e.unknown && !e.first, c.charge)
			}
			if c.exact && e.refunded() {
				add(e.start, e.end, !c.disturbed && !e.unknown, c.refund)
			}
		}
	}
	end := w.events[len(w.events)-1].end
	add(end, end, true, func(s state) []state {
		for f, calls := range w.counters {
			if f.account == accountID(of) && !w.has("swap") && int(s.used[w.dayIndex(f.day)]) != calls {
				return nil
			}
		}
		return []state{s}
	})
	return history
}

// dayIndex returns the index of a day in state.used. A wrong clock may be on the day before the
// first.
func (w *world) dayIndex(day string) int {
	at, _ := time.Parse(time.DateOnly, day)
	return int(at.Sub(w.events[0].start.Truncate(24*time.Hour))/(24*time.Hour)) + 1
}

// command returns the state after the start of a command, or after its end.
func (e *event) command(s state, done bool) state {
	switch revoked := &s.revoked[e.key%keysEach]; e.kind {
	case "revoke":
		if *revoked = max(*revoked, changing); done {
			*revoked = yes
		}
	case "suspend":
		if s.suspended = max(s.suspended, changing); done {
			s.suspended = yes
		}
	case "resume":
		if s.suspended = min(s.suspended, changing); done {
			s.suspended = no
		}
	case "tier":
		if s.next = int8(e.key); done {
			s.tier, s.next = s.next, -1
		}
	}
	return s
}

// uncertain reports whether the client of a call cannot know whether it was charged.
func (e *event) uncertain() bool { return e.unknown || e.limit == 0 && e.status >= 500 }

// rejected reports whether a call was not charged.
func (e *event) rejected() bool { return !e.uncertain() && (e.limit == 0 || e.status == 429) }

// kept reports whether the charge of a call had to be kept.
func (e *event) kept() bool { return !e.uncertain() && slices.Contains([]int{200, 304, 404}, e.status) }

// refunded reports whether the charge of a call may have been refunded.
func (e *event) refunded() bool {
	if e.unknown {
		return !slices.Contains([]string{"200", "304", "404"}, e.answer)
	}
	return !e.uncertain() && !e.rejected() && !e.kept()
}

// part is a call whose parts take effect one after the other.
type part struct {
	*event

	disturbed bool
	exact     bool  // figures count, because no swap loses charges
	days      []int // indices of the days to which the call may have been charged
}

func (c part) bit() uint64 { return 1 << (c.id % 64) }

// usable reports whether the key may be used.
func (c part) usable(s state) bool {
	replaced := c.keyID == successor(keyID(c.account, c.key%keysEach))
	return s.suspended != yes && (replaced || s.revoked[c.key%keysEach] != yes)
}

// charge is the admission or rejection of a call.
func (c part) charge(s state) []state {
	same := []state{s}
	possible := func(is bool) []state {
		if is {
			return same
		}
		return nil
	}
	inTier := c.limit == tiers[s.tier].PerDay || s.next >= 0 && c.limit == tiers[s.next].PerDay
	used := int(s.used[c.days[0]])
	switch {
	case c.uncertain() && !c.usable(s):
		return same
	case c.uncertain():
		return append(same, c.add(s, 1)...)
	case c.code == "revoked_api_key":
		return possible(s.revoked[c.key%keysEach] != no)
	case c.code == "account_suspended":
		return possible(s.suspended != no)
	case !c.usable(s) || !inTier:
		return nil
	case !c.exact:
		return same
	case c.rejected():
		return possible(c.remaining == max(0, c.limit-used) && (c.code != "daily_limit_reached" || c.remaining == 0))
	case used >= c.limit || c.kept() && c.remaining != c.limit-used-1:
		return nil
	}
	return c.add(s, 1)
}

// refund is the end of a call that must not count. A fault may prevent it, or hide its result.
func (c part) refund(s state) []state {
	if s.refundable&c.bit() == 0 { // not charged, or not yet
		if c.uncertain() {
			return []state{s}
		}
		return nil
	}
	next := c.add(s, -1)
	s.refundable &^= c.bit()
	switch {
	case c.disturbed || c.unknown:
		return append(next, s)
	case c.status != 0 && c.remaining != max(0, c.limit-int(next[0].used[c.days[0]])):
		return nil
	}
	return next
}

// add returns the states with one call more or less, on each possible day.
func (c part) add(s state, calls int8) (next []state) {
	if c.refunded() {
		s.refundable ^= c.bit()
	}
	for _, day := range c.days {
		to := s
		to.used[day] += calls
		next = append(next, to)
	}
	return next
}
