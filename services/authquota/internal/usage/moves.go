package usage

import (
	"time"

	"opportunity.internal/pkg/counter"
)

// Move says that the calls of one account on one day count for another, which has taken over its keys. Nobody is charged to From any
// more.
type Move struct{ Day, From, To string }

// Moves are what a take-over at now moves: the day, and the one beside it where the clock of Redis may not have reached, or may
// already have left, the same day.
func Moves(from, to string, now time.Time) []Move {
	day, before, settled := Days(now)
	moves := []Move{{day, from, to}}
	if !settled {
		moves = append(moves, Move{before, from, to})
	}
	if after := counter.DayOf(now.Add(Settled)); after != day {
		moves = append(moves, Move{after, from, to})
	}
	return moves
}

// Moved is what a day begins with in a Redis that does not know it: the counts of the ledger, after the moves of that day.
//
// The mark of a move is a count like any other, written in the same transaction as the counts that it was made with. So a ledger
// with the mark has what was moved in the count of the account that took over, and a ledger without it does not: either way each call
// is counted once.
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

// Over reports whether no counter of the move's day will change any more.
func (m Move) Over(now time.Time) bool {
	today, before, settled := Days(now)
	return m.Day < before || m.Day < today && settled
}
