package store

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/eventfile"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/history/internal/event"
	"opportunity.internal/services/history/internal/summary"
)

type eventRow struct {
	Sequence    int64 `gorm:"primaryKey;autoIncrement:false"`
	ID          string
	Slug        string
	CheckedAt   int64
	CheckType   api.CheckType
	Outcome     api.Outcome
	SourceURLs  string `gorm:"column:source_urls"`
	Facts       *string
	Note        string
	Actor       string
	RecordedAt  int64
	ContentHash string
	PrevHash    string
	Hash        string
}

func (eventRow) TableName() string { return "verification_events" }

type summaryRow struct {
	Slug     string `gorm:"primaryKey"`
	Sequence int64
	Events   int
	Summary  string
	Derived  int64 // Sequence when the current rules derived Summary; any other value: derive again
}

func (summaryRow) TableName() string { return "summaries" }

// appendTime is how long an append may take, its turn included: one that hangs must not hold up all that come after it.
const appendTime = time.Minute

// listingsAtOnce is how many listings' whole histories an append holds in memory at a time.
const listingsAtOnce = 200

// Append records events that actor found, in the order given, and the summaries that follow from them: all or nothing. An event
// that says exactly what a recorded one says is counted as a duplicate and left out, so a file may be appended again. It returns
// an event.UnseenError if a listing has events that a line's LastEventID does not account for.
func (s *Store) Append(ctx context.Context, actor string, now time.Time, lines []eventfile.Line) (appended, duplicates int, err error) {
	return s.append(ctx, actor, now, lines, nil)
}

// proposed is a record to append and the newest event that its author had seen, if it says so.
type proposed struct {
	event.Record
	lastEventID *string
}

// append is Append; also, unless nil, is done in the same transaction.
func (s *Store) append(ctx context.Context, actor string, now time.Time, lines []eventfile.Line, also func(tx *gorm.DB) error,
) (appended, duplicates int, err error) {
	bySlug := map[string][]proposed{}
	var slugs []string
	for _, line := range lines {
		r, err := event.New(line.Event)
		if err != nil {
			return 0, 0, err
		}
		if bySlug[r.Slug] == nil {
			slugs = append(slugs, r.Slug)
		}
		r.Actor, r.RecordedAt = actor, now.UnixMicro()
		bySlug[r.Slug] = append(bySlug[r.Slug], proposed{r, line.LastEventID})
	}
	if len(slugs) == 0 {
		return 0, 0, nil
	}
	err = s.alone(ctx, func(tx *gorm.DB, next int64) (int64, error) {
		appended, duplicates = 0, 0
		var unseen []event.Record
		if also != nil {
			if err := also(tx); err != nil {
				return next, err
			}
		}
		for some := range slices.Chunk(slugs, listingsAtOnce) {
			chains, err := load(tx, some)
			if err != nil {
				return next, err
			}
			var fresh []eventRow
			var summaries []summaryRow
			for _, slug := range some {
				chain, added, err := extend(chains[slug], bySlug[slug], next)
				if missed := new(event.UnseenError); errors.As(err, &missed) {
					unseen = append(unseen, missed.Events...)
					continue
				}
				if err != nil {
					return next, err
				}
				duplicates += len(bySlug[slug]) - added
				if added == 0 {
					continue
				}
				next += int64(added)
				appended += added
				for _, r := range chain[len(chain)-added:] {
					fresh = append(fresh, eventRow(r))
				}
				row, err := summarize(slug, chain)
				if err != nil {
					return next, err
				}
				summaries = append(summaries, row)
			}
			if err := save(tx, fresh, summaries); err != nil {
				return next, err
			}
		}
		if len(unseen) > 0 {
			return next, &event.UnseenError{Events: unseen}
		}
		return next, nil
	})
	if err != nil {
		return 0, 0, err
	}
	s.appended.Add(float64(appended))
	return appended, duplicates, nil
}

// alone does work in a transaction beside which no replica appends. work gets the next free sequence, and returns the next after
// those it used.
func (s *Store) alone(ctx context.Context, work func(tx *gorm.DB, next int64) (int64, error)) error {
	ctx, cancel := context.WithTimeout(ctx, appendTime)
	defer cancel()
	// Appends take turns in any case. Queueing here, those that wait hold no connection that readers need, and meet none of the
	// unfairness of SQLite's lock.
	select {
	case s.appending <- struct{}{}:
		defer func() { <-s.appending }()
	case <-ctx.Done():
		return database.Outage(ctx.Err())
	}
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		next, err := database.NextSequence(tx) // its lock makes this the only append of all replicas until commit
		if err != nil {
			return err
		}
		if next, err = work(tx, next); err != nil {
			return err
		}
		return tx.Exec("UPDATE change_sequence SET value = ? WHERE id = 1", next-1).Error
	})
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && err != nil { // which a commit, for one, does not say
		return problem.Unavailable(err)
	}
	return database.Outage(err)
}

// load reads the chains of some slugs.
func load(tx *gorm.DB, slugs []string) (map[string][]event.Record, error) {
	var rows []eventRow
	if err := tx.Where("slug IN ?", slugs).Order("sequence").Find(&rows).Error; err != nil {
		return nil, err
	}
	chains := make(map[string][]event.Record, len(slugs))
	for _, row := range rows {
		chains[row.Slug] = append(chains[row.Slug], event.Record(row))
	}
	return chains, nil
}

// extend adds the records that the chain does not hold yet, numbered from next, and returns their number. It returns an
// event.UnseenError if the chain holds events that the author of one of them had not seen.
func extend(chain []event.Record, records []proposed, next int64) (extended []event.Record, added int, err error) {
	held := make(map[string]bool, len(chain)+len(records))
	prev := ""
	for _, r := range chain {
		held[r.ContentHash], prev = true, r.Hash
	}
	before := chain
	for _, p := range records {
		r := p.Record
		if held[r.ContentHash] { // sent again, perhaps after a lost response: the newest event may be itself
			continue
		}
		if p.lastEventID != nil {
			if newer := recordedAfter(before, *p.lastEventID); len(newer) > 0 {
				return nil, 0, &event.UnseenError{Events: newer}
			}
		}
		id, err := uuid.NewV7()
		if err != nil {
			return nil, 0, err
		}
		r.ID, r.Sequence = id.String(), next+int64(added)
		r.Seal(prev)
		held[r.ContentHash], prev = true, r.Hash
		chain = append(chain, r)
		added++
	}
	return chain, added, nil
}

// maxUnseen bounds the unseen events of a listing that are returned, for a client that has seen none of a long history.
const maxUnseen = 20

// recordedAfter returns the last events of the chain that were recorded after the event with that id: all of them, up to
// maxUnseen, if the chain does not hold it.
func recordedAfter(chain []event.Record, id string) []event.Record {
	at := slices.IndexFunc(chain, func(r event.Record) bool { return r.ID == id }) // -1: everything is newer
	return chain[max(at+1, len(chain)-maxUnseen):]
}

func summarize(slug string, chain []event.Record) (summaryRow, error) {
	events := make([]api.VerificationEvent, len(chain))
	for i := range chain {
		e, err := chain[i].Event()
		if err != nil {
			return summaryRow{}, err
		}
		events[i] = e
	}
	sum := summary.Of(slug, events)
	last := chain[len(chain)-1]
	sum.Sequence, sum.LastEventID = last.Sequence, last.ID
	text, err := json.Marshal(sum)
	return summaryRow{Slug: slug, Sequence: sum.Sequence, Events: len(chain), Summary: string(text), Derived: sum.Sequence}, err
}

func save(tx *gorm.DB, fresh []eventRow, summaries []summaryRow) error {
	if len(fresh) > 0 {
		if err := tx.CreateInBatches(fresh, batch).Error; err != nil {
			return err
		}
	}
	if len(summaries) == 0 {
		return nil
	}
	return tx.Clauses(clause.OnConflict{UpdateAll: true}).CreateInBatches(summaries, batch).Error
}

// Summaries returns the next summaries after a sequence, in its order, at most limit of them. A summary that was derived by older
// rules is derived again first: one of before an upgrade, or of a replica that has yet to be upgraded.
func (s *Store) Summaries(ctx context.Context, after int64, limit int) ([]api.Summary, error) {
	for {
		var rows []summaryRow
		err := s.db.WithContext(ctx).Where("sequence > ?", after).Order("sequence").Limit(limit).Find(&rows).Error
		if err != nil {
			return nil, database.Outage(err)
		}
		var outdated []string
		summaries := make([]api.Summary, len(rows))
		for i, row := range rows {
			if row.Derived != row.Sequence {
				outdated = append(outdated, row.Slug)
			} else if err := json.Unmarshal([]byte(row.Summary), &summaries[i]); err != nil {
				return nil, err
			}
		}
		if len(outdated) == 0 {
			return summaries, nil
		}
		for some := range slices.Chunk(outdated, listingsAtOnce) {
			if err := s.derive(ctx, some); err != nil {
				return nil, err
			}
		}
	}
}

// derive derives the summaries of some listings anew. Their sequences stay: no event was added.
func (s *Store) derive(ctx context.Context, slugs []string) error {
	return s.alone(ctx, func(tx *gorm.DB, next int64) (int64, error) {
		chains, err := load(tx, slugs)
		if err != nil {
			return next, err
		}
		rows := make([]summaryRow, 0, len(slugs))
		for _, slug := range slugs {
			if len(chains[slug]) == 0 { // its events were removed from the database: `history verify` reports that
				if err := tx.Exec("UPDATE summaries SET derived = sequence WHERE slug = ?", slug).Error; err != nil {
					return next, err
				}
				continue
			}
			row, err := summarize(slug, chains[slug])
			if err != nil {
				return next, err
			}
			rows = append(rows, row)
		}
		return next, save(tx, nil, rows)
	})
}

// History reads a page of the events of slug, newest check first, of equal ones the newest appended first. published is false
// where slug names no listing that consumers may see. It takes at most two queries.
func (s *Store) History(ctx context.Context, slug string, offset, limit int) (page event.Page, published bool, err error) {
	db := s.db.WithContext(ctx)
	var heads []struct {
		Sequence int64
		Events   int
	}
	err = db.Raw(`SELECT coalesce(s.sequence, 0) AS sequence, coalesce(s.events, 0) AS events
		FROM listings l LEFT JOIN summaries s ON s.slug = l.id WHERE l.id = ? AND l.published`, slug).Scan(&heads).Error
	if err != nil || len(heads) == 0 {
		return event.Page{}, false, database.Outage(err)
	}
	page = event.Page{Sequence: heads[0].Sequence, Total: heads[0].Events, Events: []api.VerificationEvent{}}
	if offset >= page.Total {
		return page, true, nil
	}
	var rows []eventRow // none that was appended since the first query: they would shift the page against its total
	err = db.Where("slug = ? AND sequence <= ?", slug, page.Sequence).Order("checked_at DESC, sequence DESC").
		Offset(offset).Limit(limit).Find(&rows).Error
	if err != nil {
		return event.Page{}, false, database.Outage(err)
	}
	for _, row := range rows {
		e, err := (*event.Record)(&row).Event()
		if err != nil {
			return event.Page{}, false, err
		}
		page.Events = append(page.Events, e)
	}
	return page, true, nil
}
