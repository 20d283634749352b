package usage

import (
	"time"

	"opportunity.internal/pkg/counter"
)

// Move assigns the usage of one account on one day to another, which took over its keys. No further requests are charged to
// From.
type Move struct{ Day, From, To string }

// Moves returns the moves for a takeover at now: for today, and for the adjacent day near midnight, because the clock of Redis
// may differ.
func Moves(from, to string, now time.Time) []Move {
	day, before, settled := Days(now)
	moves := []Move{{day, from, to}}
	if !settled {
		moves = append(moves, Move{before, from, to})
	}
	if after := counter.DayOf(now.Add(FinalAfter)); after != day {
		moves = append(moves, Move{after, from, to})
	}
	return moves
}

// Moved returns the counts with which to restore a day that Redis has lost: the ledger's counts after the moves of that day.
//
// The marker of a move is stored like a count, in the same transaction as the counts it belongs to. If the ledger has the
// marker, its counts already include the move. If not, Moved applies it. Either way each request counts once.
func Moved(counts map[string]int, moves []Move) map[string]int {
	for _, m := range moves {
		mark := counter.Moved(m.From)
		if counts[mark] == 0 {
			counts[m.To] += counts[m.From]
		}
		delete(counts, m.From)
		counts[mark] = 1
	}
	return counts
}

// Over reports whether the counters of the move's day can no longer change.
func (m Move) Over(now time.Time) bool {
	today, before, settled := Days(now)
	return m.Day < before || m.Day < today && settled
}
