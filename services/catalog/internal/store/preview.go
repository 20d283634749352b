package store

import (
	"context"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/services/catalog/internal/listing"
)

// maxPreviewed bounds the bytes of the changes that a preview lists. Further ones are only counted.
const maxPreviewed = 16 << 20

// Preview returns the changes that Import would make for the lines of a valid file. It opens no
// transaction and blocks no writer, so concurrent changes may make it outdated.
func (s *Store) Preview(ctx context.Context, lines Lines) (preview api.ImportPreview, err error) {
	now := s.now().UTC().Truncate(time.Microsecond)
	preview = api.ImportPreview{DryRun: true, Changes: []api.ListingChange{}, Rejected: []api.RejectedLine{}}
	p := previewer{tx: s.db.WithContext(ctx), now: now, preview: &preview}
	err = inBatches(lines, func(batch []listingfile.Line) error { return database.Outage(p.add(batch)) })
	if len(preview.Rejected) > 0 {
		preview = api.ImportPreview{DryRun: true, Changes: []api.ListingChange{}, Rejected: preview.Rejected,
			Omitted: preview.Omitted}
	}
	return preview, err
}

// previewer adds the changes of lines to a preview.
type previewer struct {
	tx      *gorm.DB
	now     time.Time
	preview *api.ImportPreview
	size    int // bytes of the listed changes
}

func (p *previewer) add(lines []listingfile.Line) error {
	steps, err := plan(p.tx, lines, p.now)
	if err != nil {
		return err
	}
	if p.preview.Warnings, err = duplicates(p.tx, steps, p.preview.Warnings); err != nil {
		return err
	}
	ids := make([]string, len(steps))
	for i, a := range steps {
		ids[i] = a.entry.ID
	}
	known, err := summaries(p.tx, ids)
	if err != nil {
		return err
	}
	for _, a := range steps {
		if err := p.addStep(a, known[a.entry.ID]); err != nil {
			return err
		}
	}
	return nil
}

func (p *previewer) addStep(a importStep, summary api.Summary) error {
	if a.dropsLastSource() {
		appendRejection(&p.preview.Rejected, &p.preview.Omitted, a.rejection())
		return nil
	}
	if a.change.KeptWithdrawn {
		p.preview.KeptWithdrawn = append(p.preview.KeptWithdrawn, a.entry.ID)
	}
	if a.change.Published && summary.LastCheckedAt == nil {
		p.preview.NeverReviewed++
	}
	if a.old != nil && len(a.change.Fields) == 0 {
		p.preview.Unchanged++
		return nil
	}
	c, err := listing.Compare(a.old, a.entry, summary, p.now)
	if err != nil {
		return err
	}
	p.preview.Count(c)
	if p.size > maxPreviewed {
		p.preview.Unlisted++
		return nil
	}
	p.preview.Changes = append(p.preview.Changes, c)
	p.size += changeSize(c)
	return nil
}

// changeSize returns the approximate size of a change in a response.
func changeSize(c api.ListingChange) int {
	n := 150
	for _, f := range c.Fields {
		n += len(f.Field) + len(f.Old) + len(f.New) + 30
	}
	return n
}

// summaries returns the summaries of the listings with the ids, by id. Listings without a summary
// are not in the map.
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
		if err := listing.Documents.UnmarshalFromString(row.Document, &summary); err != nil {
			return nil, err
		}
		all[row.ListingID] = summary
	}
	return all, nil
}
