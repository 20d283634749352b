package main

import (
	"fmt"
	"os"
	"time"

	"opportunity.internal/e2e/bench/report"
	"opportunity.internal/e2e/load"
)

// side is a system in a comparison.
type side struct {
	target    load.Target
	processes []*process // whose CPU time is measured
}

// figures are the results of one side, one of each per round.
type figures struct {
	rate     report.Series // calls per second
	cpu      report.Series // µs of CPU time per call, of all processes of the side
	p50, p99 report.Series // latency in ms
	bytes    report.Series // length of a body
}

// calling makes the calls of one side in a round.
type calling func(load.Target) (load.Result, error)

// rounds runs each side in turn, n times, so that noise of the machine affects all of them. A first round is not counted.
func rounds(n int, sides []side, run calling) ([]figures, error) {
	if err := round(make([]figures, len(sides)), sides, run); err != nil {
		return nil, err
	}
	all := make([]figures, len(sides))
	for range n {
		if err := round(all, sides, run); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// round runs each side once and adds the results to all.
func round(all []figures, sides []side, run calling) error {
	for i, s := range sides {
		before, err := s.cpu()
		if err != nil {
			return err
		}
		result, err := run(s.target)
		if err != nil {
			s.printLogs()
			return err
		}
		after, err := s.cpu()
		if err != nil {
			return err
		}
		all[i].add(result, after-before)
	}
	return nil
}

func (f *figures) add(r load.Result, cpu time.Duration) {
	f.rate = append(f.rate, r.Rate())
	f.cpu = append(f.cpu, float64(cpu.Microseconds())/float64(r.Calls))
	f.p50 = append(f.p50, milliseconds(r.Quantile(0.5)))
	f.p99 = append(f.p99, milliseconds(r.Quantile(0.99)))
	f.bytes = append(f.bytes, float64(r.Bytes)/float64(r.Calls))
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// cpu returns the CPU time of the side's processes. It also empties their logs, which would fill the disk.
func (s side) cpu() (sum time.Duration, err error) {
	for _, p := range s.processes {
		used, err := p.cpu()
		if err != nil {
			return 0, err
		}
		sum += used
		_ = os.Truncate(p.log, 0)
	}
	return sum, nil
}

// printLogs prints the end of each log.
func (s side) printLogs() {
	for _, p := range s.processes {
		fmt.Fprintf(os.Stderr, "bench: log of %s:\n%s\n", p.name, p.lastLines())
	}
}
