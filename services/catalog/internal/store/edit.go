package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/services/catalog/internal/listing"
)

// Edit replaces a listing by a valid line, in one transaction, if its version is still the given one. Otherwise nothing changes, and the
// report has the current version. It never changes the visibility. It returns problem.NotFound for an unknown listing.
func (s *Store) Edit(ctx context.Context, actor string, line listingfile.Line, version string) (api.EditReport, error) {
	report := api.EditReport{Fields: []string{}, Problems: api.Problems{}}
	outdated := false
	done, err := s.apply(ctx, actor, false, func(w *writer, imported *api.ImportReport) error {
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
			report.Problems.Add("visibility", "must be %s or left out: publish or withdraw the listing instead", old.Visibility)
			return errNoChange
		}
		_, change := old.Update(line, w.now)
		report.Fields = append(report.Fields, change.Fields...)
		return w.importBatch([]listingfile.Line{line}, imported)
	})
	if err != nil {
		return report, err
	}
	for _, r := range done.Rejected {
		report.Problems = append(report.Problems, r.Problems...)
	}
	report.Applied = !outdated && len(report.Problems) == 0
	if !report.Applied {
		report.Fields = []string{}
	}
	detail, err := s.Detail(ctx, line.ID)
	report.Current = &detail
	return report, err
}

// encodeEntry returns the listing as a line of a listings file, and its version, which changes with every edit.
func encodeEntry(e listing.Entry) (line []byte, version string, err error) {
	line, err = api.Encode(e)
	line = append(line, '\n')
	sum := sha256.Sum256(line)
	return line, hex.EncodeToString(sum[:16]), err
}
