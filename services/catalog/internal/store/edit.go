package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/services/catalog/internal/listing"
)

// Edit replaces a listing by a valid line, in one transaction, if its version is still the given
// one. Otherwise nothing changes, and the report has the current version. If dry is set, it changes
// nothing and only reports what would change. It never changes the visibility or the time of
// publication, which decides who sees the record without a plan and is up to publishers. It returns
// problem.NotFound for an unknown listing.
func (s *Store) Edit(ctx context.Context, actor string, line listingfile.Line, version string,
	dry bool) (api.EditReport, error) {
	report := api.EditReport{Fields: []string{}, Material: []string{}, Problems: api.Problems{}}
	outdated := false
	done, err := s.apply(ctx, actor, changeTimeout, dry, func(w *writer, imported *api.ImportReport) error {
		row, notes, err := findListing(w.tx, line.ID)
		if err != nil {
			return err
		}
		old, err := row.entry(notes)
		if err != nil {
			return err
		}
		_, current, err := encodeEntry(old)
		if err != nil {
			return err
		}
		if outdated = current != version; outdated {
			return errNoChange
		}
		if line.Visibility != "" && line.Visibility != old.Visibility {
			report.Problems.Add("visibility", "must be %s or left out: publish or withdraw the listing instead",
				old.Visibility)
		}
		if at := line.PublishedAt; at != nil && (old.PublishedAt == nil || !at.Equal(*old.PublishedAt)) {
			report.Problems.Add("publishedAt", "must not change: publishing sets it, and only an import can replace it")
		}
		if len(report.Problems) > 0 {
			return errNoChange
		}
		if err := w.describeEdit(old, line, &report); err != nil {
			return err
		}
		return w.importBatch([]listingfile.Line{line}, imported)
	})
	if err != nil {
		return report, err
	}
	for _, r := range done.Rejected {
		report.Problems = append(report.Problems, r.Problems...)
	}
	report.Applied = !dry && !outdated && len(report.Problems) == 0
	if len(report.Problems) > 0 {
		report.Fields, report.Material, report.Change = []string{}, []string{}, nil
	}
	detail, err := s.Detail(ctx, line.ID)
	report.Current = &detail
	return report, err
}

func (w *writer) describeEdit(old listing.Entry, line listingfile.Line, report *api.EditReport) error {
	updated, change := old.Update(line, w.now)
	for _, field := range change.Fields {
		report.Fields = append(report.Fields, field)
		if listing.Material(field) {
			report.Material = append(report.Material, field)
		}
	}
	known, err := summaries(w.tx, []string{old.ID})
	if err != nil {
		return err
	}
	compared, err := listing.Compare(&old, updated, known[old.ID], w.now)
	report.Change = &compared
	return err
}

// encodeEntry returns the listing as a line of a listings file, and its version, which changes with
// every edit.
func encodeEntry(e listing.Entry) (line []byte, version string, err error) {
	line, err = api.Encode(e)
	line = append(line, '\n')
	sum := sha256.Sum256(line)
	return line, hex.EncodeToString(sum[:16]), err
}
