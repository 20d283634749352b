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
}

func (summaryRow) TableName() string { return "summaries" }

// appendTime is how long an append may take, its turn included: one that hangs must not hold up all that come after it.
const appendTime = time.Minute

// listingsAtOnce is how many listings' whole histories an append holds in memory at a time.
const listingsAtOnce = 200

// Append records events that actor found, in the order given, and the summaries that follow from them: all or nothing. An event
// that says exactly what a recorded one says is counted as a duplicate and left out, so a file may be appended again.
func (s *Store) Append(ctx context.Context, actor string, now time.Time, events []api.VerificationEvent) (appended, duplicates int, err error) {
	return s.append(ctx, actor, now, events, nil)
}

// append is Append; also, unless nil, is done in the same transaction.
func (s *Store) append(ctx context.Context, actor string, now time.Time, events []api.VerificationEvent, also func(tx *gorm.DB) error,
) (appended, duplicates int, err error) {
	bySlug := map[string][]event.Record{}
	var slugs []string
	for _, e := range events {
		r, err := event.New(e)
		if err != nil {
			return 0, 0, err
		}
		if bySlug[r.Slug] == nil {
			slugs = append(slugs, r.Slug)
		}
		r.Actor, r.RecordedAt = actor, now.UnixMicro()
		bySlug[r.Slug] = append(bySlug[r.Slug], r)
	}
	if len(slugs) == 0 {
		return 0, 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, appendTime)
	defer cancel()
	// Appends take turns in any case. Queueing here, those that wait hold no connection that readers need, and meet none of the
	// unfairness of SQLite's lock.
	select {
	case s.appending <- struct{}{}:
		defer func() { <-s.appending }()
	case <-ctx.Done():
		return 0, 0, database.Outage(ctx.Err())
	}
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		next, err := database.NextSequence(tx) // its lock makes this the only append of all replicas until commit
		if err != nil {
			return err
		}
		appended, duplicates = 0, 0
		if also != nil {
			if err := also(tx); err != nil {
				return err
			}
		}
		for some := range slices.Chunk(slugs, listingsAtOnce) {
			chains, err := load(tx, some)
			if err != nil {
				return err
			}
			var fresh []eventRow
			var summaries []summaryRow
			for _, slug := range some {
				chain, added, err := extend(chains[slug], bySlug[slug], next)
				if err != nil {
					return err
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
					return err
				}
				summaries = append(summaries, row)
			}
			if err := save(tx, fresh, summaries); err != nil {
				return err
			}
		}
		return tx.Exec("UPDATE change_sequence SET value = ? WHERE id = 1", next-1).Error
	})
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && err != nil { // which a commit, for one, does not say
		return 0, 0, problem.Unavailable(err)
	}
	if err != nil {
		return 0, 0, database.Outage(err)
	}
	s.appended.Add(float64(appended))
	return appended, duplicates, nil
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

// extend adds what the chain does not hold yet, numbered from next, and tells how many that were.
func extend(chain, records []event.Record, next int64) (extended []event.Record, added int, err error) {
	held := make(map[string]bool, len(chain)+len(records))
	prev := ""
	for _, r := range chain {
		held[r.ContentHash], prev = true, r.Hash
	}
	for _, r := range records {
		if held[r.ContentHash] {
			continue
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
	sum.Sequence = chain[len(chain)-1].Sequence
	text, err := json.Marshal(sum)
	return summaryRow{Slug: slug, Sequence: sum.Sequence, Events: len(chain), Summary: string(text)}, err
}

func save(tx *gorm.DB, fresh []eventRow, summaries []summaryRow) error {
	if len(fresh) == 0 {
		return nil
	}
	if err := tx.CreateInBatches(fresh, batch).Error; err != nil {
		return err
	}
	return tx.Clauses(clause.OnConflict{UpdateAll: true}).CreateInBatches(summaries, batch).Error
}

// Summaries are the next summaries after a sequence, in its order, at most limit of them.
func (s *Store) Summaries(ctx context.Context, after int64, limit int) ([]api.Summary, error) {
	var texts []string
	err := s.db.WithContext(ctx).
		Raw("SELECT summary FROM summaries WHERE sequence > ? ORDER BY sequence LIMIT ?", after, limit).Scan(&texts).Error
	if err != nil {
		return nil, database.Outage(err)
	}
	summaries := make([]api.Summary, len(texts))
	for i, text := range texts {
		if err := json.Unmarshal([]byte(text), &summaries[i]); err != nil {
			return nil, err
		}
	}
	return summaries, nil
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
