package docsite

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"opportunity.internal/docs"
	"opportunity.internal/pkg/api"
)

var statusEntry = entry{docs.Help, "/status", "Status", "Whether each part of this installation works now, its " +
	"uptime and service level objectives, and how well it meets them."}

// Health is the state of the installation, as one gateway sees it.
type Health struct {
	At      time.Time
	Missing []string  // dependencies that are not ready, as Ready.Missing of pkg/server returns them
	Since   time.Time // start of the process
}

// measured counts API requests for the service level objectives: those that were not correctly
// rejected, those of them that failed, and those that were served within LatencyObjective.
type measured struct{ calls, failed, inTime atomic.Int64 }

// Count counts an API request that was not correctly rejected.
func (s *Site) Count(failed bool, took time.Duration) {
	s.measured.calls.Add(1)
	switch {
	case failed:
		s.measured.failed.Add(1)
	case took <= LatencyObjective:
		s.measured.inTime.Add(1)
	}
}

// fairDay is the share of served calls below which a day is bad.
const fairDay = 0.99

// Service level objectives, as in docs/operators/slo.md.
const (
	AvailabilityTarget = 0.999
	LatencyTarget      = 0.99
	LatencyObjective   = 250 * time.Millisecond
	FreshnessTarget    = 0.95
)

// ShowHealth renders the status page.
func (s *Site) ShowHealth(h Health) error {
	return s.change(func() { s.health = &h }, rendering.status)
}

// ShowServed shows how many calls failed on each of the last days, oldest first. Days without calls
// may be missing.
func (s *Site) ShowServed(days []api.DayServed) error {
	return s.change(func() { s.served = append([]api.DayServed{}, days...) }, rendering.status)
}

// bar is a day on the status page, at the position X, with a class of the style sheet.
type bar struct {
	X           int
	Tone, Title string
}

func (r rendering) bars(today time.Time) (all []bar) {
	for i := range api.ServedDays {
		day := today.UTC().AddDate(0, 0, i+1-api.ServedDays).Format(time.DateOnly)
		b := bar{X: i, Tone: "none", Title: day + ": no requests"}
		at := slices.IndexFunc(r.served, func(d api.DayServed) bool { return d.Day == day })
		if at >= 0 && r.served[at].Calls > 0 {
			d := r.served[at]
			b.Title = day + ": " + percent(d.Calls-d.Failed, d.Calls) + " served"
			switch share := float64(d.Calls-d.Failed) / float64(d.Calls); {
			case share >= AvailabilityTarget:
				b.Tone = "good"
			case share >= fairDay:
				b.Tone = "warn"
			default:
				b.Tone = "bad"
			}
		}
		all = append(all, b)
	}
	return all
}

type part struct {
	Name, Use string
	needs     []string
	Problem   bool
}

type objective struct {
	Name, Target string
	Measured     string // empty if nothing is measured yet
	Met          bool
}

func (r rendering) status() error {
	data := map[string]any{"Checked": r.health != nil, "Objectives": r.objectives()}
	if r.health != nil {
		parts := []part{
			{Name: "Lists and records", Use: "Requests for lists and single records", needs: []string{"redis", "catalog"}},
			{Name: "Verification history", Use: "Requests for the history of a record", needs: []string{"redis", "history"}},
			{Name: "Accounts and keys", Use: "Account pages, and new or changed keys", needs: []string{"authquota"}},
		}
		if r.operator.SellsPlans {
			parts = append(parts, part{Name: "Payments", Use: "Buying and changing a plan", needs: []string{"billing"}})
		}
		for _, missing := range r.health.Missing {
			name, _, _ := strings.Cut(missing, " (") // a detail in parentheses is for operators
			for i, p := range parts {
				parts[i].Problem = p.Problem || slices.Contains(p.needs, name)
			}
		}
		if r.served != nil {
			bars := r.bars(r.health.At)
			days := map[string]int{"good": 0, "warn": 0, "bad": 0, "none": 0} // a template needs each
			for _, b := range bars {
				days[b.Tone]++
			}
			data["Bars"], data["Days"] = bars, days
		}
		data["Parts"], data["At"], data["Since"] = parts, instant(r.health.At), instant(r.health.Since)
	}
	return r.templatePage(page{entry: statusEntry, cache: revalidated}, "status.html", data)
}

func (r rendering) objectives() []objective {
	calls, inTime := int(r.measured.calls.Load()), int(r.measured.inTime.Load())
	served := calls - int(r.measured.failed.Load())
	verified, records := recordsOf(r.catalog, api.Verified), recordsOf(r.catalog, "")
	return []objective{
		newObjective("Availability: requests that are not rejected for a reason of the client are served",
			AvailabilityTarget, served, calls, "request"),
		newObjective("Latency: served requests take at most 0.25 seconds", LatencyTarget, inTime, served, "request"),
		newObjective("Freshness: public records are verified", FreshnessTarget, verified, records, "record"),
	}
}

func newObjective(name string, target float64, good, all int, thing string) objective {
	o := objective{Name: name, Target: fmt.Sprintf("%g%%", 100*target)}
	if all > 0 {
		if all != 1 {
			thing += "s"
		}
		o.Measured = fmt.Sprintf("%s of %s %s", percent(good, all), thousands(all), thing)
		o.Met = float64(good) >= target*float64(all)
	}
	return o
}

// percent formats a share with two decimals. It never rounds up to 100%.
func percent(part, whole int) string {
	hundredths := int64(part) * 10_000 / int64(whole)
	return fmt.Sprintf("%d.%02d%%", hundredths/100, hundredths%100)
}
