package opportunity

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"
)

// Store holds a copy of the records. The caller of Sync implements it.
type Store interface {
	// State returns the state that the last Apply saved, or the zero state.
	State(ctx context.Context) (SyncState, error)
	// IDs returns the ids of all stored records.
	IDs(ctx context.Context) ([]string, error)
	// Apply stores and removes records and saves the state, in one transaction.
	Apply(ctx context.Context, changes Changes) error
}

// SyncState is the progress of a copy.
type SyncState struct {
	// CheckedAfter is the time of the latest review in the copy.
	CheckedAfter time.Time `json:"checkedAfter"`
	// FullWalkAt is the time of the last walk through all records.
	FullWalkAt time.Time `json:"fullWalkAt"`
}

// Changes are the result of one Sync.
type Changes struct {
	Put    []Opportunity // records to insert or replace
	Remove []string      // ids of records to delete; some may not be stored
	State  SyncState
}

// SyncOptions configures Sync.
type SyncOptions struct {
	// FullEvery is the time between walks through all records; the default is a day. Only such a walk sees removals and changes other
	// than reviews, such as link checks and edits.
	FullEvery time.Duration
}

// SyncResult describes what one Sync did.
type SyncResult struct {
	Full    bool // all records were read
	Put     int  // records stored
	Removed int  // records removed
}

const (
	// overlap is the reach of an incremental walk into the past: reviews can be recorded some time after they were made.
	overlap = time.Hour
	// maxWalks bounds the walks of one Sync through records that keep changing.
	maxWalks = 3
)

// Sync updates a copy of all records that the account can read. The first call reads everything. Later calls read the records reviewed
// since, and everything again once SyncOptions.FullEvery has passed. Sync changes the store once, at the end; after an error the copy
// is as before.
//
// If records change while Sync walks through the pages, it walks again, up to three times. If they never stop changing, it looks up
// each record that the last walk did not see before it removes it.
func (c *Client) Sync(ctx context.Context, store Store, options SyncOptions) (SyncResult, error) {
	state, err := store.State(ctx)
	if err != nil {
		return SyncResult{}, fmt.Errorf("reading state of copy: %w", err)
	}
	if options.FullEvery <= 0 {
		options.FullEvery = 24 * time.Hour
	}
	now := c.now().UTC()
	w := walker{client: c, ids: map[string]bool{}, changes: Changes{State: state}}
	full := state.FullWalkAt.IsZero() || now.Sub(state.FullWalkAt) >= options.FullEvery
	if full {
		stored, err := store.IDs(ctx)
		if err != nil {
			return SyncResult{}, fmt.Errorf("reading ids of copy: %w", err)
		}
		w.changes.State.FullWalkAt = now
		err = w.full(ctx, stored)
		if err != nil {
			return SyncResult{}, err
		}
	} else if _, err := w.settle(ctx, since(state.CheckedAfter)); err != nil {
		return SyncResult{}, err
	}
	for _, record := range w.changes.Put {
		if at := record.Verification.LastCheckedAt; at != nil && at.After(w.changes.State.CheckedAfter) {
			w.changes.State.CheckedAfter = *at
		}
	}
	if err := store.Apply(ctx, w.changes); err != nil {
		return SyncResult{}, fmt.Errorf("storing copy: %w", err)
	}
	return SyncResult{Full: full, Put: len(w.changes.Put), Removed: len(w.changes.Remove)}, nil
}

// since returns the filter of an incremental walk. A copy without any review reads all reviewed records.
func since(checkedAfter time.Time) Filter {
	if checkedAfter.IsZero() {
		return Filter{CheckedAfter: "1970-01-01"}
	}
	return Filter{CheckedAfter: DateOf(checkedAfter.Add(-overlap))}
}

// walker collects the changes of one Sync.
type walker struct {
	client  *Client
	ids     map[string]bool // every id that any walk saw
	changes Changes
}

// full reads all records and finds the ids to remove: those that are stored, or that an earlier walk saw, but not the last one.
func (w *walker) full(ctx context.Context, stored []string) error {
	for _, id := range stored {
		w.ids[id] = true
	}
	settled, err := w.settle(ctx, Filter{})
	if err != nil {
		return err
	}
	for _, record := range w.changes.Put {
		delete(w.ids, record.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(w.ids)) {
		if !settled { // the walk may have missed the record
			detail, err := w.client.Opportunity(ctx, id)
			if err == nil {
				w.changes.Put = append(w.changes.Put, detail.Data)
				continue
			}
			if !HasCode(err, CodeNotFound) {
				return err
			}
		}
		w.changes.Remove = append(w.changes.Remove, id)
	}
	return nil
}

// settle walks until the records did not change during the walk, and reports whether it succeeded.
func (w *walker) settle(ctx context.Context, f Filter) (bool, error) {
	for range maxWalks {
		same, err := w.walk(ctx, f)
		if same || err != nil {
			return same, err
		}
	}
	return false, nil
}

// walk reads the records of all pages into changes.Put. It reports whether they were unchanged from the first page to the last: the
// entity tag of the first page depends on all records.
func (w *walker) walk(ctx context.Context, f Filter) (same bool, err error) {
	var first *Page[Opportunity]
	position := map[string]int{} // a record that moved appears twice; the later copy is newer
	w.changes.Put = nil
	query := f.query()
	for page, err := range pages[Opportunity](ctx, w.client, listPath, query, true) {
		if err != nil {
			return false, err
		}
		if first == nil {
			first = page
		}
		for _, record := range page.Data {
			w.ids[record.ID] = true
			if i, ok := position[record.ID]; ok {
				w.changes.Put[i] = record
				continue
			}
			position[record.ID] = len(w.changes.Put)
			w.changes.Put = append(w.changes.Put, record)
		}
	}
	if !first.Pagination.HasMore {
		return true, nil
	}
	path := &url.URL{Path: listPath, RawQuery: query.Encode()}
	again, err := w.client.get(ctx, request{path: path, etag: first.Response.etag, fresh: true}, new(Page[Opportunity]))
	return again.NotModified, err
}
