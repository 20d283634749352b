// Package simulation runs three gateways against a Redis and a model of authquota, in one process
// and with simulated time, while clients call, operators change accounts, and messages, processes
// and clocks fail. The seed of a run decides all of it, so a run can be repeated.
//
// plan_test.go draws what happens, world_test.go runs it, and rules_test.go and account_test.go
// check what clients and Redis saw. See docs/decisions/0035-seeded-simulation.md.
package simulation

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain uses one processor, so that goroutines that become ready at the same time run in the
// same order in each run. The garbage collector would change the order, so it runs between runs;
// see simulate.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(-1)
	os.Exit(m.Run())
}

// TestSimulation runs SIMULATE_RUNS seeds (default 1000) from SIMULATE_SEED (default 0).
func TestSimulation(t *testing.T) {
	first, _ := strconv.ParseUint(cmp.Or(os.Getenv("SIMULATE_SEED"), "0"), 10, 64)
	runs, err := strconv.ParseUint(cmp.Or(os.Getenv("SIMULATE_RUNS"), "1000"), 10, 64)
	require.NoError(t, err)
	for seed := first; seed < first+runs; seed++ {
		w := simulate(t, newPlan(seed), bug{})
		if broken := w.check(); len(broken) > 0 {
			t.Fatalf("make simulate SEED=%d RUNS=1 breaks rules:\n  %s\n%s", seed, strings.Join(broken, "\n  "), w)
		}
	}
}

// String returns the history of a run.
func (w *world) String() string {
	var text strings.Builder
	for _, f := range w.net.faults {
		fmt.Fprintln(&text, "   ", f.at.Format("15:04:05.000000"), f.kind, f.on)
	}
	for _, e := range w.events {
		fmt.Fprintln(&text, "   ", e)
	}
	return text.String()
}

// bug is a mistake put into a run on purpose, where the simulation stands between the parts anyway.
type bug struct {
	name         string
	script       string // of production, in which from becomes to
	from, to     string
	refundsTwice bool // each refund reaches Redis twice
	noTerm       bool // gateways do not notice another primary
	retries      bool // the Redis client repeats a command without a reply
	ownClock     bool // admissions use the clock of the gateway
	repliesEarly bool // authquota replies to operators before it increments the epoch
}

var bugs = []bug{
	{name: "no check of the epoch", script: "admit", from: "if epochs[i] ~= ARGV[at + 1] then", to: "if false then"},
	{name: "refund twice", refundsTwice: true},
	{name: "window admits one more", script: "admit", from: "if recent >= per_minute then",
		to: "if recent > per_minute then"},
	{name: "window is 10 ms short", script: "admit", from: "now - oldest >= MINUTE", to: "now - oldest >= MINUTE - 10000"},
	{name: "cached keys outlive a primary", noTerm: true},
	{name: "replies of a batch swapped", script: "admit", from: "local changes, names",
		to: "replies[1], replies[count] = replies[count], replies[1]\nlocal changes, names"},
	{name: "day and time from the gateway's clock", ownClock: true},
	{name: "retry after a lost reply", retries: true},
	{name: "revocation after the reply", repliesEarly: true},
	{name: "steps of the Redis clock unnoticed", script: "admit",
		from: "if clock < (tonumber(ARGV[6]) or clock) or clock > (tonumber(ARGV[7]) or clock) then", to: "if false then"},
	{name: "entries from the future count", script: "admit", from: "if newest and newest > clock + AHEAD then",
		to: "if false then"},
	{name: "no capacity", script: "admit", from: "all >= capacity or ", to: ""},
	{name: "no capacity of the base tier", script: "admit", from: "(is_base and of_base >= base_capacity)", to: "false"},
	{name: "refund frees the minute", script: "refund", from: "redis.call('HSET', KEYS[1], account",
		to: "redis.call('LPOP', '{oda}:minute:' .. account)\nredis.call('HSET', KEYS[1], account"},
	{name: "refund keeps the service's count", script: "refund", from: "math.max(0, all - 1)", to: "all"},
}

func TestBugsAreFound(t *testing.T) {
	for _, b := range bugs {
		require.Equal(t, b.script != "", strings.Count(scripts[b.script], b.from) == 1 && b.from != "",
			"%s: the text to change", b.name)
		found := false
		for seed := uint64(0); seed < 1000 && !found; seed++ {
			if broken := simulate(t, newPlan(seed), b).check(); len(broken) > 0 {
				found = true
				t.Logf("%-40s seed %3d: %s", b.name, seed, broken[0])
			}
		}
		require.True(t, found, b.name)
	}
}

// A busy operating system may interrupt a run for so long that the scheduler of Go changes the
// order of goroutines. That is rare.
func TestRunsCanBeRepeated(t *testing.T) {
	const seeds = 20
	equal := 0
	for seed := range uint64(seeds) {
		first, second := simulate(t, newPlan(seed), bug{}), simulate(t, newPlan(seed), bug{})
		if fmt.Sprint(first.events) == fmt.Sprint(second.events) {
			equal++
		}
	}
	require.GreaterOrEqual(t, equal, seeds-2)
}
