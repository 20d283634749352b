package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"opportunity.internal/services/history/internal/event"
)

// line is a line of an export: JSON Lines with a header, then every event in the order in which
// they were recorded. An export has everything that is hashed, so the log of the history that is
// replayed from it has the same checkpoints.
type line struct {
	Format  string        `json:"format,omitempty"`
	Version int           `json:"version,omitempty"`
	Event   *event.Record `json:"event,omitempty"`
}

var header = line{Format: "opportunity-history", Version: 1}

// Export writes the events of source to out.
func Export(out io.Writer, source Source) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(header); err != nil {
		return err
	}
	for after := int64(0); ; {
		page, err := source.Events(after, pageSize)
		if err != nil || len(page) == 0 {
			return err
		}
		for i := range page {
			if err := enc.Encode(line{Event: &page[i]}); err != nil {
				return err
			}
			after = page[i].Sequence
		}
	}
}

// Target is the history to which an export is replayed.
type Target interface {
	// Replay records events with their sequences and hashes, and returns the number that the store
	// lacked. It returns an error unless they continue the stored events.
	Replay(ctx context.Context, records []event.Record) (added int, err error)
}

// Replay adds to target the events of an export that it lacks, and returns their number. It can be
// repeated. After an error, everything before the line with the error is replayed.
func Replay(ctx context.Context, in io.Reader, target Target) (events int, err error) {
	dec := json.NewDecoder(in)
	dec.DisallowUnknownFields()
	var first line
	if err := dec.Decode(&first); err != nil || first != header {
		return 0, errors.New("not an export of the history: the first line must be the header that \"history export\" writes")
	}
	var pending []event.Record
	replay := func() error {
		if len(pending) == 0 {
			return nil
		}
		added, err := target.Replay(ctx, pending)
		events += added
		pending = pending[:0]
		return err
	}
	for number := 2; ; number++ {
		var l line
		err := dec.Decode(&l)
		switch {
		case errors.Is(err, io.EOF):
			return events, replay()
		case err != nil:
			err = fmt.Errorf("line %d: %w", number, err)
		case l.Event != nil:
			if pending = append(pending, *l.Event); len(pending) == pageSize {
				err = replay()
			}
		}
		if err != nil {
			return events, err
		}
	}
}
