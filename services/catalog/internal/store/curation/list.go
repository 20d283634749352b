package curation

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/services/catalog/internal/listing"
	"opportunity.internal/services/catalog/internal/store"
)

type listedRow struct {
	ID                string
	Document          string // of a candidate
	PublishedAt       *int64
	CreatedAt         int64
	UpdatedAt         int64
	Company           string
	Category          api.Category
	Visibility        string
	Host              string
	NameKey           string
	Status            api.VerificationStatus
	ApplicationStatus api.ApplicationStatus
	Sources           int
	DueAt             int64
	LastCheckedAt     *int64
	Lease             leaseRow `gorm:"embedded"`
}

// page returns up to limit listings that match f and have an id greater than after, ordered by id,
// with more columns of the listing. next is the last id if there are more.
func (s *Store) page(ctx context.Context, f listing.Filter, after string, limit int, columns string) (rows []listedRow,
	next string, err error) {
	now := database.Micros(s.now())
	q := s.db.WithContext(ctx).Table("listings l").
		Select(`l.id, l.published_at, l.created_at, l.updated_at, i.company, i.category, i.visibility, i.host, i.name_key,
			i.status, i.application_status, i.sources, i.due_at, i.last_checked_at,
			e.holder, e.taken_at, e.expires_at`+columns).
		Joins("JOIN listing_index i ON i.listing_id = l.id").
		Joins("LEFT JOIN leases e ON e.listing_id = l.id AND e.expires_at > ?", now).
		Where("l.id > ?", after)
	if f.Holder != "" {
		q = q.Where("e.holder = ?", f.Holder)
	}
	err = withFilter(q, f, now).Order("l.id").Limit(limit + 1).Scan(&rows).Error
	if len(rows) > limit {
		rows = rows[:limit]
		next = rows[limit-1].ID
	}
	return rows, next, database.Outage(err)
}

// List returns up to limit listings that match f and have an id greater than after, ordered by id.
// Next is the last id if there are more.
func (s *Store) List(ctx context.Context, f listing.Filter, after string, limit int) (api.ListingList, error) {
	rows, next, err := s.page(ctx, f, after, limit, "")
	list, now := api.ListingList{Listings: []api.ListedListing{}, Next: next}, database.Micros(s.now())
	for _, r := range rows {
		l := api.ListedListing{
			ID: r.ID, Company: r.Company, Category: r.Category, Visibility: r.Visibility, Host: r.Host, Sources: r.Sources,
			Status: statusAt(r.Status, r.DueAt, now), ApplicationStatus: r.ApplicationStatus,
			UpdatedAt: database.FromMicros(r.UpdatedAt), PublishedAt: store.FromMicros(r.PublishedAt), Lease: r.Lease.lease(),
		}
		if r.LastCheckedAt != nil { // by a host whose clock may be ahead
			l.LastCheckedAt = new(database.FromMicros(min(*r.LastCheckedAt, now)))
		}
		if r.Visibility == "published" && r.DueAt > 0 {
			l.DueAt = new(database.FromMicros(r.DueAt))
		}
		list.Listings = append(list.Listings, l)
	}
	return list, err
}

// withFilter adds the conditions of f on the index, except Holder.
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
	switch f.Status { // the index does not know which verified records have turned stale
	case "":
	case api.Stale:
		q = q.Where("i.status = ? AND i.due_at < ?", api.Verified, now)
	case api.Verified:
		q = q.Where("i.status = ? AND i.due_at >= ?", api.Verified, now)
	default:
		q = q.Where("i.status = ?", f.Status)
	}
	return q
}

// contains returns a LIKE pattern for lower-case text that contains part. The escape character is a
// backslash.
func contains(part string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(api.Fold(strings.TrimSpace(part))) + "%"
}

func statusAt(status api.VerificationStatus, dueAt, now int64) api.VerificationStatus {
	if status == api.Verified && dueAt < now {
		return api.Stale
	}
	return status
}

// Candidates returns a page of the private listings that match f, ordered by id.
func (s *Store) Candidates(ctx context.Context, f listing.Filter, after string, limit int) (api.CandidateList, error) {
	f.Visibility = listingfile.Private
	rows, next, err := s.page(ctx, f, after, limit, ", l.document")
	list := api.CandidateList{Candidates: []api.Candidate{}, Next: next}
	if err != nil {
		return list, err
	}
	keys := make([]store.Namesake, len(rows))
	for i, r := range rows {
		keys[i] = store.Namesake{ListingID: r.ID, Host: r.Host, NameKey: r.NameKey}
	}
	known, err := store.Namesakes(s.db.WithContext(ctx), keys)
	if err != nil {
		return list, err
	}
	for i, r := range rows {
		var l listingfile.Listing
		if err := json.Unmarshal([]byte(r.Document), &l); err != nil {
			return list, fmt.Errorf("decoding listing %s: %w", r.ID, err)
		}
		c := api.Candidate{
			ID: r.ID, Company: r.Company, Category: r.Category, Host: r.Host, CreatedAt: database.FromMicros(r.CreatedAt),
			Reviewed: r.LastCheckedAt != nil, Missing: listing.Missing(l), Sources: len(l.Sources), Lease: r.Lease.lease(),
			Duplicates: []api.Duplicate{},
		}
		for _, k := range known {
			if by := keys[i].Alike(k); by != "" && len(c.Duplicates) < store.MaxDuplicates {
				c.Duplicates = append(c.Duplicates, api.Duplicate{ID: k.ListingID, Visibility: k.Visibility, By: by})
			}
		}
		list.Candidates = append(list.Candidates, c)
	}
	return list, nil
}
