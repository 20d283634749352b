package desk

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/services/catalog/internal/listing"
)

// maxDuplicates is the maximum number of duplicates that are named for a candidate.
const maxDuplicates = 10

type candidateRow struct {
	ListingID     string
	Company       string
	Category      api.Category
	Host          string
	NameKey       string
	LastCheckedAt *int64
	Document      string
	CreatedAt     int64
	Holder        *string
	TakenAt       int64
	ExpiresAt     int64
}

// Candidates returns a page of the private listings that match f, ordered by id.
func (s *Store) Candidates(ctx context.Context, f listing.Filter, after string, limit int) (api.CandidateList, error) {
	tx, now := s.db.WithContext(ctx), database.Micros(s.now())
	f.Visibility = listingfile.Private
	q := tx.Table("listings l").
		Select(`l.id AS listing_id, l.document, l.created_at, i.company, i.category, i.host, i.name_key, i.last_checked_at,
			e.holder, coalesce(e.taken_at, 0) AS taken_at, coalesce(e.expires_at, 0) AS expires_at`).
		Joins("JOIN listing_index i ON i.listing_id = l.id").
		Joins("LEFT JOIN leases e ON e.listing_id = l.id AND e.expires_at > ?", now).
		Where("l.id > ?", after)
	var rows []candidateRow
	if err := withFilter(q, f, now).Order("l.id").Limit(limit + 1).Scan(&rows).Error; err != nil {
		return api.CandidateList{}, database.Outage(err)
	}
	list := api.CandidateList{Candidates: []api.Candidate{}}
	if len(rows) > limit {
		rows = rows[:limit]
		list.Next = rows[limit-1].ListingID
	}
	known, err := similar(tx, rows)
	if err != nil {
		return list, err
	}
	for _, row := range rows {
		c, err := row.candidate()
		if err != nil {
			return list, err
		}
		c.Duplicates = row.duplicates(known)
		list.Candidates = append(list.Candidates, c)
	}
	return list, nil
}

func (r candidateRow) candidate() (api.Candidate, error) {
	c := api.Candidate{
		ID: r.ListingID, Company: r.Company, Category: r.Category, Host: r.Host,
		CreatedAt: database.FromMicros(r.CreatedAt),
		Reviewed:  r.LastCheckedAt != nil,
	}
	var l listingfile.Listing
	if err := json.Unmarshal([]byte(r.Document), &l); err != nil {
		return c, fmt.Errorf("decoding listing %s: %w", r.ListingID, err)
	}
	c.Missing, c.Sources = listing.Missing(l), len(l.Sources)
	if r.Holder != nil {
		lease := leaseRow{Holder: *r.Holder, TakenAt: r.TakenAt, ExpiresAt: r.ExpiresAt}.lease()
		c.Lease = &lease
	}
	return c, nil
}

type similarRow struct {
	ListingID  string
	Visibility string
	Host       string
	NameKey    string
}

// similar returns the listings with the host or the company name of one of the rows.
func similar(tx *gorm.DB, rows []candidateRow) ([]similarRow, error) {
	var hosts, names []string
	for _, row := range rows {
		if row.Host != "" {
			hosts = append(hosts, row.Host)
		}
		if row.NameKey != "" {
			names = append(names, row.NameKey)
		}
	}
	var known []similarRow
	err := tx.Raw(`SELECT listing_id, visibility, host, name_key FROM listing_index WHERE host IN @hosts
		UNION SELECT listing_id, visibility, host, name_key FROM listing_index WHERE name_key IN @names`,
		map[string]any{"hosts": append(hosts, ""), "names": append(names, "")}).Scan(&known).Error
	slices.SortFunc(known, func(a, b similarRow) int { return cmp.Compare(a.ListingID, b.ListingID) })
	return known, database.Outage(err)
}

func (r candidateRow) duplicates(known []similarRow) []api.Duplicate {
	found := []api.Duplicate{}
	for _, k := range known {
		sameHost, sameName := k.Host != "" && k.Host == r.Host, k.NameKey != "" && k.NameKey == r.NameKey
		if k.ListingID == r.ListingID || !sameHost && !sameName || len(found) == maxDuplicates {
			continue
		}
		by := "both"
		if !sameName {
			by = "host"
		} else if !sameHost {
			by = "name"
		}
		found = append(found, api.Duplicate{ID: k.ListingID, Visibility: k.Visibility, By: by})
	}
	return found
}
