package store

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/services/catalog/internal/listing"
)

// Preview returns the changes that Import would make for the lines of a valid file. It opens no transaction and blocks no writer, so
// concurrent changes may make it outdated.
func (s *Store) Preview(ctx context.Context, lines []listingfile.Line) (api.ImportPreview, error) {
	now := s.now().UTC().Truncate(time.Microsecond)
	preview := api.ImportPreview{DryRun: true, Changes: []api.ListingChange{}, Rejected: []api.RejectedLine{}}
	tx := s.db.WithContext(ctx)
	for part := range slices.Chunk(lines, batch) {
		steps, err := plan(tx, part, now)
		if err != nil {
			return api.ImportPreview{}, database.Outage(err)
		}
		ids := make([]string, len(steps))
		for i, a := range steps {
			ids[i] = a.entry.ID
		}
		known, err := summaries(tx, ids)
		if err != nil {
			return api.ImportPreview{}, err
		}
		for _, a := range steps {
			if a.dropsLastSource() {
				appendRejection(&preview.Rejected, &preview.Omitted, a.rejection())
				continue
			}
			if a.change.KeptWithdrawn {
				preview.KeptWithdrawn = append(preview.KeptWithdrawn, a.entry.ID)
			}
			if a.change.Published && known[a.entry.ID].LastCheckedAt == nil {
				preview.NeverReviewed++
			}
			if a.old != nil && len(a.change.Fields) == 0 {
				preview.Unchanged++
				continue
			}
			c, err := listing.Compare(a.old, a.entry, known[a.entry.ID], now)
			if err != nil {
				return api.ImportPreview{}, err
			}
			preview.Count(c)
		}
	}
	if len(preview.Rejected) > 0 {
		preview = api.ImportPreview{DryRun: true, Changes: []api.ListingChange{}, Rejected: preview.Rejected, Omitted: preview.Omitted}
	}
	return preview, nil
}

// summaries returns the summaries of the listings with the ids, by id. Listings without a summary are not in the map.
func summaries(tx *gorm.DB, ids []string) (map[string]api.Summary, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var rows []summaryRow
	if err := tx.Where("listing_id IN ?", ids).Find(&rows).Error; err != nil {
		return nil, database.Outage(err)
	}
	all := make(map[string]api.Summary, len(rows))
	for _, row := range rows {
		var summary api.Summary
		if err := json.Unmarshal([]byte(row.Document), &summary); err != nil {
			return nil, err
		}
		all[row.ListingID] = summary
	}
	return all, nil
}
