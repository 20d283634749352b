package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"opportunity.internal/services/history/internal/checkpoint"
	"opportunity.internal/services/history/internal/event"
)

// line is a line of an export: JSON Lines with a header, then every event and checkpoint in the order in which they were recorded. An export has
// everything that is hashed and signed, so the history that is replayed from it has the same checkpoints. Exactly one part is set.
type line struct {
	Format     string        `json:"format,omitempty"`
	Version    int           `json:"version,omitempty"`
	Event      *event.Record `json:"event,omitempty"`
	Checkpoint *signed       `json:"checkpoint,omitempty"`
}

type signed struct {
	Day  string `json:"day"`
	Note string `json:"note"`
}

var header = line{Format: "opportunity-history", Version: 1}

// Export writes the events and checkpoints of source to out.
func Export(out io.Writer, source Source) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(header); err != nil {
		return err
	}
	_, checkpoints, err := source.Totals()
	if err != nil {
		return err
	}
	write := func(upTo int64) error { // the checkpoints that cover upTo events or fewer
		for ; len(checkpoints) > 0 && checkpoints[0].Size <= upTo; checkpoints = checkpoints[1:] {
			c := checkpoints[0]
			if err := enc.Encode(line{Checkpoint: &signed{c.Day, c.Note}}); err != nil {
				return err
			}
		}
		return nil
	}
	for after := int64(0); ; {
		page, err := source.Events(after, pageSize)
		if err != nil || len(page.Records) == 0 {
			return err
		}
		for i := range page.Records {
			r := &page.Records[i]
			if err := errors.Join(enc.Encode(line{Event: r}), write(r.Sequence)); err != nil {
				return err
			}
			after = r.Sequence
		}
	}
}

// Target is the history to which an export is replayed.
type Target interface {
	// Replay records events with their sequences and hashes, and returns the number that the store lacked. It returns an error unless
	// they continue the stored events.
	Replay(ctx context.Context, records []event.Record) (added int, err error)
	// Restore saves a checkpoint, and reports false if the store has it. It returns an error unless it covers exactly the stored events.
	Restore(ctx context.Context, day, note string) (saved bool, err error)
}

// Replayed counts what a replay added.
type Replayed struct {
	Events, Checkpoints int
}

// Replay adds to target the events and checkpoints of an export that it lacks. It can be repeated. After an error, everything before the line
// with the error is replayed.
func Replay(ctx context.Context, in io.Reader, target Target, stored []checkpoint.Stored) (report Replayed, err error) {
	dec := json.NewDecoder(in)
	dec.DisallowUnknownFields()
	var first line
	if err := dec.Decode(&first); err != nil || first != header {
		return report, errors.New("not an export of the history: the first line must be the header that \"history export\" writes")
	}
	var pending []event.Record
	replay := func() error {
		if len(pending) == 0 {
			return nil
		}
		added, err := target.Replay(ctx, pending)
		report.Events += added
		pending = pending[:0]
		return err
	}
	for number := 2; ; number++ {
		var l line
		err := dec.Decode(&l)
		switch {
		case errors.Is(err, io.EOF):
			return report, replay()
		case err != nil:
			err = fmt.Errorf("line %d: %w", number, err)
		case l.Event != nil:
			if pending = append(pending, *l.Event); len(pending) == pageSize {
				err = replay()
			}
		case l.Checkpoint != nil && slices.ContainsFunc(stored, func(c checkpoint.Stored) bool { return c.Note == l.Checkpoint.Note }):
		case l.Checkpoint != nil:
			if err = replay(); err == nil {
				var saved bool
				if saved, err = target.Restore(ctx, l.Checkpoint.Day, l.Checkpoint.Note); saved {
					report.Checkpoints++
				}
			}
		}
		if err != nil {
			return report, err
		}
	}
}
