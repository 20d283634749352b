package curation

import (
	"context"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/catalog/internal/review"
)

const maxSamples = 365 // past days

// Freshness returns the published records by status now, on past days and ahead.
func (s *Store) Freshness(ctx context.Context) (api.Freshness, error) {
	tx, now := s.db.WithContext(ctx), s.now().UTC()
	f := api.Freshness{GeneratedAt: now, Days: []api.FreshnessSample{}, Ahead: []api.DueDay{}}
	var err error
	if f.Now, f.Links, err = sample(tx, now); err != nil {
		return f, err
	}
	err = tx.Raw("SELECT coalesce(sum(facts), 0) AS facts, coalesce(sum(quoted), 0) AS quoted FROM listing_index WHERE "+
		"visibility = 'published'").
		Row().Scan(&f.Facts, &f.Quoted)
	if err != nil {
		return f, database.Outage(err)
	}
	err = tx.Raw(`SELECT day, verified, stale, needs_review, unverified FROM
		(SELECT * FROM freshness_samples WHERE day < ? ORDER BY day DESC LIMIT ?) past ORDER BY day`,
		f.Now.Day, maxSamples).Scan(&f.Days).Error
	if err != nil {
		return f, database.Outage(err)
	}
	p, err := progress(tx, now)
	if err != nil {
		return f, err
	}
	targets := review.Plan(p.backlog, p.done, now)
	for i, n := range p.backlog {
		f.Ahead = append(f.Ahead, api.DueDay{Day: now.AddDate(0, 0, i).Format(time.DateOnly), Due: n,
			Target: targets[i]})
	}
	return f, nil
}

// sample counts the published records by their status at now, and by the outcome of their latest
// link check.
func sample(tx *gorm.DB, now time.Time) (counts api.FreshnessSample, links map[api.Outcome]int, err error) {
	counts.Day, links = now.Format(time.DateOnly), map[api.Outcome]int{}
	var rows []struct {
		Status      api.VerificationStatus
		LinkOutcome api.Outcome
		Records     int
	}
	err = tx.Raw(`SELECT CASE WHEN status = @verified AND due_at < @now THEN @stale ELSE status END AS status,
			link_outcome, count(*) AS records
		FROM listing_index WHERE visibility = 'published' GROUP BY 1, 2`,
		map[string]any{"verified": string(api.Verified), "stale": string(api.Stale),
			"now": database.Micros(now)}).Scan(&rows).Error
	for _, row := range rows {
		links[row.LinkOutcome] += row.Records
		switch row.Status {
		case api.Verified:
			counts.Verified += row.Records
		case api.Stale:
			counts.Stale += row.Records
		case api.NeedsReview:
			counts.NeedsReview += row.Records
		case api.Unverified:
			counts.Unverified += row.Records
		}
	}
	return counts, links, database.Outage(err)
}

// SampleFreshness stores the counts of today. The last call of a day decides.
func (s *Store) SampleFreshness(ctx context.Context) error {
	tx := s.db.WithContext(ctx)
	c, _, err := sample(tx, s.now().UTC())
	if err != nil {
		return err
	}
	return database.Outage(tx.Table("freshness_samples").Clauses(clause.OnConflict{
		Columns: []clause.Column{{Name: "day"}}, UpdateAll: true,
	}).Create(&c).Error)
}
