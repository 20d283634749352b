package simulation

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
)

// check returns the rules that a run breaks, in words.
func (w *world) check() (broken []string) {
	report := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	w.checkCharges(report)
	w.checkRejections(report)
	w.checkCounters(report)
	w.checkUsage(report)
	for i := range accounts {
		if !porcupine.CheckOperations(model, w.history(i)) {
			report("no order of the calls of %s explains their responses", accountID(i))
		}
	}
	return broken
}

// slack is the time by which admissions may follow a wrong clock: a correction of the Redis clock
// lacks the time that messages took.
const slack = 3 * time.Second

func (w *world) slack() time.Duration {
	if w.has("redis clock") {
		return slack
	}
	return 0
}

// misled reports whether admissions may have followed a wrong Redis clock: if the clock of a
// gateway was wrong as well, or if a gateway started, which cannot know that the Redis clock is
// wrong.
func (w *world) misled() bool { return w.has("redis clock") && w.has("gateway clock", "restart") }

// checkCharges checks the limits by the true clock: no charge makes more than the limit in 60
// seconds. Charges that a swap lost count only before the swap. If admissions were misled, charges
// from before they followed another clock do not count.
func (w *world) checkCharges(report func(string, ...any)) {
	var offset time.Duration
	var since time.Time // the latest change of offset
	for i, c := range w.store.charges {
		if c.calls < 0 {
			continue
		}
		if now := c.stamp.Sub(c.at.Truncate(time.Microsecond)); (now - offset).Abs() > w.slack() {
			offset, since = now, c.at
			if !w.misled() {
				report("call of %s at %v charged by a clock that is wrong by %v", c.account, c.at, now)
			}
		}
		if !slices.ContainsFunc(w.events, func(e *event) bool { return e.mayCharge(c) }) {
			report("call of %s charged at %v, when no client waited", c.account, c.at)
		}
		recent := 0
		for _, b := range w.store.charges[:i+1] {
			young := c.stamp.Sub(b.stamp) < time.Minute-w.slack()
			if b.account == c.account && b.calls > 0 && b.lives(c.at) && !b.at.Before(since) && young {
				recent += b.calls
			}
		}
		if recent > c.limit {
			report("%d calls of %s admitted in the 60 seconds before %v, limit %d", recent, c.account, c.at, c.limit)
		}
		if c.service > capacity {
			report("%d calls admitted on %s, capacity %d", c.service, c.day, capacity)
		}
		if c.ofBase && c.base > baseCapacity {
			report("%d calls of the base tier admitted on %s, capacity %d", c.base, c.day, baseCapacity)
		}
	}
}

// mayCharge reports whether a charge may be that of the event. A call of a gateway that does not
// know the Redis clock yet, or that was killed, may be charged after its end.
func (e *event) mayCharge(c *charge) bool {
	return e.kind == "call" && accountID(e.account) == c.account && !c.at.Before(e.start) &&
		(e.first || e.unknown || !c.at.After(e.end))
}

// checkRejections checks that calls fail or are rejected only with reason.
func (w *world) checkRejections(report func(string, ...any)) {
	for _, e := range w.events {
		if e.kind != "call" || e.unknown {
			continue
		}
		recent, full := 0, false
		for _, c := range w.store.charges {
			near := c.at.After(e.start.Add(-time.Minute-w.slack())) && !c.at.After(e.end) && c.lives(e.start)
			if c.account == accountID(e.account) && near {
				recent += max(0, c.calls)
			}
			baseFull := c.base >= baseCapacity && e.limit == tiers[0].PerDay
			full = full || (c.service >= capacity || baseFull) && !c.at.After(e.end)
		}
		i := slices.IndexFunc(tiers, func(l api.Limits) bool { return l.PerDay == e.limit })
		switch {
		case e.status >= 500 && e.answer != "500" && !w.net.disturbed(gatewayName(e.gateway), e.start, e.end):
			report("failed without a fault: %v", e)
		case e.status >= 500 && e.at == afterFaults:
			report("fails after the end of the faults: %v", e)
		case e.code == "minute_limit_reached" && recent < tiers[i].PerMinute && (!w.misled() || e.at == afterFaults):
			report("rejected with %d calls in the minute before: %v", recent, e)
		case e.code == "service_capacity_reached" && !full:
			report("rejected before the capacity was reached: %v", e)
		}
	}
}

// days returns the days with counters.
func (w *world) days() (days []string) {
	for f := range w.counters {
		if f.account == counter.ServiceField {
			days = append(days, f.day)
		}
	}
	slices.Sort(days)
	return days
}

// checkCounters checks the counters of accounts against the calls that count, and that of the
// service against those. A call that a fault has met may count or not. After a swap it may count
// for each of its three attempts, because their refunds may fail.
func (w *world) checkCounters(report func(string, ...any)) {
	for _, day := range w.days() {
		all := 0
		for i := range accounts + 1 {
			kept, uncertain, lost := 0, 0, 0
			for _, e := range w.events {
				switch {
				case e.kind != "call" || e.account != i:
				case e.unknown || w.net.disturbed(gatewayName(e.gateway), e.start, e.end):
					if uncertain++; w.has("swap") {
						uncertain += 2
					}
				case e.kept() && e.day == day:
					kept++
				}
			}
			for _, c := range w.store.charges {
				if c.account == accountID(i) && c.day == day && !c.lost.IsZero() {
					lost++
				}
			}
			count := w.counters[field{day, accountID(i)}]
			if count < kept-lost || count > kept+uncertain+lost {
				report("%s has %d calls on %s, want %d to %d", accountID(i), count, day, kept-lost, kept+uncertain+lost)
			}
			all += count
		}
		if service := w.counters[field{day, counter.ServiceField}]; service != all {
			report("the service has %d calls on %s, its accounts %d", service, day, all)
		}
	}
}

// checkUsage checks that authquota has counted each response once. A killed gateway may have lost
// some.
func (w *world) checkUsage(report func(string, ...any)) {
	outcomes := map[int]api.CallOutcome{
		200: api.CallServed, 304: api.CallServed, 400: api.CallBadRequest, 402: api.CallSubscriptionRequired,
		404: api.CallNotFound,
	}
	want := map[calls]int{}
	for _, e := range w.events {
		if outcome, ok := outcomes[e.status]; ok && e.kind == "call" {
			want[calls{e.keyID, outcome}]++
		}
	}
	for of := range maps.Keys(want) {
		if got := w.authquota.usage[of]; got > want[of] || got < want[of] && !w.has("restart") {
			report("authquota counted %d calls of %v, want %d", got, of, want[of])
		}
	}
}
