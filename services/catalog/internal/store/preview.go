package store

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/services/catalog/internal/listing"
)

// Preview tells what Import would do to a file in which nothing was refused. It changes nothing, not even for a moment, and
// holds up no writer: what others change meanwhile may make it outdated.
func (s *Store) Preview(ctx context.Context, lines []listingfile.Line) (api.ImportPreview, error) {
	now := s.now().UTC().Truncate(time.Microsecond)
	preview := api.ImportPreview{DryRun: true, Changes: []api.ListingChange{}, Refused: []api.Refusal{}}
	tx := s.db.WithContext(ctx)
	for part := range slices.Chunk(lines, batch) {
		acts, err := plan(tx, part, now)
		if err != nil {
			return api.ImportPreview{}, database.Outage(err)
		}
		ids := make([]string, len(acts))
		for i, a := range acts {
			ids[i] = a.entry.ID
		}
		summaries, err := s.summaries(ctx, ids)
		if err != nil {
			return api.ImportPreview{}, err
		}
		for _, a := range acts {
			if a.old != nil && len(a.change.Fields) == 0 {
				preview.Unchanged++
				continue
			}
			c, err := listing.Compare(a.old, a.entry, summaries[a.entry.ID], now)
			if err != nil {
				return api.ImportPreview{}, err
			}
			preview.Count(c)
		}
	}
	return preview, nil
}

// summaries are what history says of the listings of those ids, where it says anything.
func (s *Store) summaries(ctx context.Context, ids []string) (map[string]api.Summary, error) {
	var rows []summaryRow
	if err := s.db.WithContext(ctx).Where("listing_id IN ?", ids).Find(&rows).Error; err != nil {
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
