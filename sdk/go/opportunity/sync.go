package opportunity

import (
	"cmp"
	"context"
	"fmt"
	"iter"
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
	// Cursor is the position of the copy among the changes. It is empty if the account cannot read
	// them.
	Cursor string `json:"cursor"`
}

// Changes are the result of one Sync.
type Changes struct {
	Put    []Opportunity // records to insert or replace
	Remove []string      // ids of records to delete; some may not be stored
	State  SyncState
}

// SyncOptions configures Sync.
type SyncOptions struct {
	// FullEvery is the time between walks through all records. The default is a day for an account
	// that cannot read changes: only such a walk sees removals and changes other than reviews, such
	// as link checks and edits. With changes, no further walk is needed.
	FullEvery time.Duration
}

// SyncResult describes what one Sync did.
type SyncResult struct {
	Full    bool // all records were read
	Put     int  // records stored
	Removed int  // records removed
}

const (
	// overlap is the reach of an incremental walk into the past: reviews can be recorded some time
	// after they were made.
	overlap = time.Hour
	// maxWalks bounds the walks of one Sync through records that keep changing.
	maxWalks = 3
)

// Sync updates a copy of all records that the account can read. The first call reads everything.
// Later calls read the changes since, and the changed records. If the account cannot read changes,
// they read the records reviewed since, and everything again once SyncOptions.FullEvery has passed.
// Sync changes the store once, at the end; after an error the copy is as before.
//
// If records change while Sync walks through the pages, it walks again, up to three times. If they
// never stop changing, it looks up each record that the last walk did not see before it removes it.
func (c *Client) Sync(ctx context.Context, store Store, options SyncOptions) (SyncResult, error) {
	state, err := store.State(ctx)
	if err != nil {
		return SyncResult{}, fmt.Errorf("reading state of copy: %w", err)
	}
	now := c.now().UTC()
	w := walker{client: c, ids: map[string]bool{}, changes: Changes{State: state}}
	full := state.FullWalkAt.IsZero()
	if options.FullEvery > 0 || state.Cursor == "" {
		full = full || now.Sub(state.FullWalkAt) >= cmp.Or(max(0, options.FullEvery), 24*time.Hour)
	}
	if !full && state.Cursor != "" {
		full, err = w.follow(ctx, store)
	} else if !full {
		_, err = w.settle(ctx, since(state.CheckedAfter))
	}
	if full && err == nil {
		w.changes.State.FullWalkAt = now
		err = w.full(ctx, store)
	}
	if err != nil {
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

// since returns the filter of an incremental walk. A copy without any review reads all reviewed
// records.
func since(checkedAfter time.Time) Filter {
	if checkedAfter.IsZero() {
		return Filter{CheckedAfter: "1970-01-01"}
	}
	return Filter{CheckedAfter: DateOf(checkedAfter.Add(-overlap))}
}

// walker collects the changes of one Sync.
type walker struct {
	client   *Client
	ids      map[string]bool // every id that any walk saw
	position map[string]int  // of the records in changes.Put
	changes  Changes
}

// full reads all records and finds the ids to remove: those that are stored, or that an earlier
// walk saw, but not the last one. The cursor is that of the time before the walk, so what changes
// meanwhile is read again.
func (w *walker) full(ctx context.Context, store Store) (err error) {
	if w.changes.State.Cursor, err = w.start(ctx); err != nil {
		return err
	}
	stored, err := idsOf(ctx, store)
	if err != nil {
		return err
	}
	for _, id := range stored {
		w.ids[id] = true
	}
	settled, err := w.settle(ctx, Filter{})
	if err != nil {
		return err
	}
	for id := range w.position {
		delete(w.ids, id)
	}
	if !settled { // the walk may have missed records
		return w.lookUp(ctx, w.ids)
	}
	w.changes.Remove = slices.Sorted(maps.Keys(w.ids))
	return nil
}

func idsOf(ctx context.Context, store Store) ([]string, error) {
	ids, err := store.IDs(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading ids of copy: %w", err)
	}
	return ids, nil
}

// start returns the current cursor, or "" if the account cannot read changes.
func (w *walker) start(ctx context.Context) (string, error) {
	for page, err := range w.changesAfter(ctx, "now") {
		if HasCode(err, CodeSubscriptionRequired) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		return page.Pagination.Cursor, nil
	}
	return "", nil
}

func (w *walker) changesAfter(ctx context.Context, cursor string) iter.Seq2[*ChangePage, error] {
	return pages[ChangePage](ctx, w.client, changesPath, ChangeFilter{After: cursor}.query(), true)
}

// follow reads the changes after the cursor, and the changed records: each one or, if that takes
// fewer calls, all pages. It reports whether a walk through all records is needed instead, because
// the cursor expired or the account can no longer read changes.
func (w *walker) follow(ctx context.Context, store Store) (walk bool, err error) {
	changed := map[string]bool{} // whether the record is public, by id
	limit := MaxPageSize
	for page, err := range w.changesAfter(ctx, w.changes.State.Cursor) {
		if HasCode(err, CodeCursorExpired) || HasCode(err, CodeSubscriptionRequired) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		for _, change := range page.Data {
			changed[change.ID] = change.Change != ChangeKindWithdrawn
		}
		w.changes.State.Cursor, limit = page.Pagination.Cursor, page.Pagination.Limit
	}
	for _, id := range slices.Sorted(maps.Keys(changed)) {
		if !changed[id] {
			w.changes.Remove = append(w.changes.Remove, id)
			delete(changed, id)
		}
	}
	stored, err := idsOf(ctx, store)
	if err != nil {
		return false, err
	}
	if pages := (len(stored) + limit - 1) / limit; len(changed) > pages {
		if _, err := w.read(ctx, Filter{}.query(), func(id string) bool { return changed[id] }); err != nil {
			return false, err
		}
		for id := range w.position {
			delete(changed, id)
		}
	}
	return false, w.lookUp(ctx, changed)
}

// lookUp reads records. It removes those that do not exist.
func (w *walker) lookUp(ctx context.Context, ids map[string]bool) error {
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		detail, err := w.client.Opportunity(ctx, id)
		switch {
		case err == nil:
			w.changes.Put = append(w.changes.Put, detail.Data)
		case HasCode(err, CodeNotFound):
			w.changes.Remove = append(w.changes.Remove, id)
		default:
			return err
		}
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

// walk reads the records of all pages into changes.Put. It reports whether they were unchanged from
// the first page to the last: the entity tag of the first page depends on all records.
func (w *walker) walk(ctx context.Context, f Filter) (same bool, err error) {
	query := f.query()
	first, err := w.read(ctx, query, func(string) bool { return true })
	if err != nil || !first.Pagination.HasMore {
		return err == nil, err
	}
	path := &url.URL{Path: listPath, RawQuery: query.Encode()}
	again, err := w.client.get(ctx, request{path: path, etag: first.Response.etag, fresh: true}, new(Page[Opportunity]))
	return again.NotModified, err
}

// read reads the records of all pages whose ids are wanted into changes.Put, and returns the first
// page.
func (w *walker) read(ctx context.Context, query url.Values, wanted func(id string) bool) (first *Page[Opportunity],
	err error) {
	w.position = map[string]int{} // a record that moved appears twice; the later copy is newer
	w.changes.Put = nil
	for page, err := range pages[Page[Opportunity]](ctx, w.client, listPath, query, true) {
		if err != nil {
			return nil, err
		}
		if first == nil {
			first = page
		}
		for _, record := range page.Data {
			if !wanted(record.ID) {
				continue
			}
			w.ids[record.ID] = true
			if i, ok := w.position[record.ID]; ok {
				w.changes.Put[i] = record
				continue
			}
			w.position[record.ID] = len(w.changes.Put)
			w.changes.Put = append(w.changes.Put, record)
		}
	}
	return first, nil
}
