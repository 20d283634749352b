package desk

import (
	"context"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/catalog/internal/listing"
)

type listedRow struct {
	ListingID         string
	Company           string
	Category          api.Category
	Visibility        string
	Host              string
	Status            api.VerificationStatus
	ApplicationStatus api.ApplicationStatus
	Sources           int
	DueAt             int64
	LastCheckedAt     *int64
	PublishedAt       *int64
	UpdatedAt         int64
	Holder            *string
	TakenAt           int64
	ExpiresAt         int64
}

// List returns up to limit listings that match f and have an id greater than after, ordered by id.
// Next is the last id if there are more.
func (s *Store) List(ctx context.Context, f listing.Filter, after string, limit int) (api.ListingList, error) {
	now := database.Micros(s.now())
	q := s.db.WithContext(ctx).Table("listings l").
		Select(`l.id AS listing_id, l.published_at, l.updated_at, i.company, i.category, i.visibility, i.host, i.status,
			i.application_status, i.sources,
			i.due_at, i.last_checked_at, e.holder, coalesce(e.taken_at, 0) AS taken_at,
			coalesce(e.expires_at, 0) AS expires_at`).
		Joins("JOIN listing_index i ON i.listing_id = l.id").
		Joins("LEFT JOIN leases e ON e.listing_id = l.id AND e.expires_at > ?", now).
		Where("l.id > ?", after)
	var rows []listedRow
	if err := withFilter(q, f, now).Order("l.id").Limit(limit + 1).Scan(&rows).Error; err != nil {
		return api.ListingList{}, database.Outage(err)
	}
	list := api.ListingList{Listings: []api.ListedListing{}}
	if len(rows) > limit {
		rows = rows[:limit]
		list.Next = rows[limit-1].ListingID
	}
	for _, row := range rows {
		list.Listings = append(list.Listings, row.listed(now))
	}
	return list, nil
}

func withFilter(q *gorm.DB, f listing.Filter, now int64) *gorm.DB {
	if f.Visibility != "" {
		q = q.Where("i.visibility = ?", f.Visibility)
	}
	if f.Category != "" {
		q = q.Where("i.category = ?", f.Category)
	}
	if f.Country != "" {
		q = q.Where("i.countries LIKE ?", "%,"+f.Country+",%")
	}
	if f.Text != "" {
		q = q.Where(`i.words LIKE ? ESCAPE '\'`, contains(f.Text))
	}
	if f.Host != "" {
		q = q.Where("i.host = ?", f.Host)
	}
	if !f.DueBefore.IsZero() {
		q = q.Where("i.visibility = 'published' AND i.due_at < ?", database.Micros(f.DueBefore))
	}
	if f.Holder != "" {
		q = q.Where("e.holder = ?", f.Holder)
	}
	return withStatus(q, f.Status, now)
}

func (r listedRow) listed(now int64) api.ListedListing {
	l := api.ListedListing{
		ID: r.ListingID, Company: r.Company, Category: r.Category, Visibility: r.Visibility, Host: r.Host,
		Sources: r.Sources,
		Status:  statusAt(r.Status, r.DueAt, now), ApplicationStatus: r.ApplicationStatus,
		UpdatedAt: database.FromMicros(r.UpdatedAt),
	}
	if r.PublishedAt != nil {
		at := database.FromMicros(*r.PublishedAt)
		l.PublishedAt = &at
	}
	if r.LastCheckedAt != nil {
		at := database.FromMicros(min(*r.LastCheckedAt, now)) // the clock of the recording host may be ahead
		l.LastCheckedAt = &at
	}
	if r.Visibility == "published" && r.DueAt > 0 {
		at := database.FromMicros(r.DueAt)
		l.DueAt = &at
	}
	if r.Holder != nil {
		lease := leaseRow{Holder: *r.Holder, TakenAt: r.TakenAt, ExpiresAt: r.ExpiresAt}.lease()
		l.Lease = &lease
	}
	return l
}
