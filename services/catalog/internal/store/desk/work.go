package desk

import (
	"context"
	"encoding/json"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
)

// AddWork adds the work of curators on the listing with the id to its review sheet: active lease
// and skip, and the operator's draft.
func (s *Store) AddWork(ctx context.Context, id, operator string, sheet *api.ReviewSheet) error {
	tx, now := s.db.WithContext(ctx), database.Micros(s.now())
	// One row in any case: the columns of what does not exist are null.
	var row struct {
		Holder                                             *string
		TakenAt, ExpiresAt, SavedAt, SkippedAt, SkipEndsAt int64
		Content, Actor, Reason                             *string
	}
	err := tx.Raw(`SELECT l.holder, coalesce(l.taken_at, 0) AS taken_at, coalesce(l.expires_at, 0) AS expires_at,
			d.content, coalesce(d.saved_at, 0) AS saved_at,
			s.actor, s.reason, coalesce(s.skipped_at, 0) AS skipped_at, coalesce(s.ends_at, 0) AS skip_ends_at
		FROM (SELECT ? AS id) one
		LEFT JOIN leases l ON l.listing_id = one.id AND l.expires_at > ?
		LEFT JOIN drafts d ON d.listing_id = one.id AND d.operator = ?
		LEFT JOIN skips s ON s.listing_id = one.id AND s.ends_at > ?`, id, now, operator, now).Scan(&row).Error
	if err != nil {
		return database.Outage(err)
	}
	if row.Holder != nil {
		lease := leaseRow{Holder: *row.Holder, TakenAt: row.TakenAt, ExpiresAt: row.ExpiresAt}.lease()
		sheet.Lease = &lease
	}
	if row.Content != nil {
		sheet.Draft = &api.Draft{Content: json.RawMessage(*row.Content), SavedAt: database.FromMicros(row.SavedAt)}
	}
	if row.Actor != nil {
		sheet.Skip = &api.Skip{
			Actor: *row.Actor, Reason: *row.Reason, SkippedAt: database.FromMicros(row.SkippedAt),
			Until: database.FromMicros(row.SkipEndsAt),
		}
	}
	return nil
}
