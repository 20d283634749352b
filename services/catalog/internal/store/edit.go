package store

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

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
		l, err := findListing(w.tx, line.ID)
		if err != nil {
			return err
		}
		old := l.entry
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

// EditInReview applies changes of api.ReviewedFields as a part of a review. It returns the problems
// of changes that cannot be applied, also if the field no longer has the old value. A field that
// has the new value already stays, so a repeated review changes nothing. dry only checks.
func (s *Store) EditInReview(ctx context.Context, actor, id string, changes []api.FieldChange,
	dry bool) (problems api.Problems, err error) {
	report, err := s.apply(ctx, actor, changeTimeout, dry, func(w *writer, report *api.ImportReport) error {
		l, err := findListing(w.tx, id)
		if err != nil {
			return err
		}
		text, _, err := encodeEntry(l.entry)
		if err != nil {
			return err
		}
		line, p, err := changed(text, changes, w.now)
		if problems = p; err != nil || len(p) > 0 {
			return cmp.Or(err, errNoChange)
		}
		w.inReview, w.reason = true, "with a review"
		return w.importBatch([]listingfile.Line{line}, report)
	})
	for _, r := range report.Rejected {
		problems = append(problems, r.Problems...)
	}
	return problems, err
}

// changed returns the listing in text with the changes.
func changed(text []byte, changes []api.FieldChange, now time.Time) (line listingfile.Line, p api.Problems, err error) {
	var tree map[string]any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&tree); err != nil {
		return line, nil, err
	}
	for _, c := range changes {
		var before, after string
		if !slices.Contains(api.ReviewedFields, c.Field) || json.Unmarshal(c.Old, &before) != nil ||
			json.Unmarshal(c.New, &after) != nil {
			p.Add("changes", "each must be the old and the new text of one of %s", strings.Join(api.ReviewedFields, ", "))
			continue
		}
		parent, name := tree, c.Field
		if group, rest, nested := strings.Cut(c.Field, "."); nested {
			parent, _ = tree[group].(map[string]any)
			name = rest
		}
		if now, _ := parent[name].(string); now != before && now != after {
			p.Add(c.Field, "was changed to %q since you opened the record; decide again", now)
			continue
		}
		parent[name] = after
	}
	if len(p) > 0 {
		return line, p, nil
	}
	if text, err = api.Encode(tree); err != nil {
		return line, nil, err
	}
	file, err := listingfile.Read(bytes.NewReader(text), now, 1)
	switch {
	case err != nil:
		return line, nil, err
	case len(file.Rejected) > 0:
		return line, file.Rejected[0].Problems, nil
	}
	return file.Lines[0], nil, nil
}

// describeEdit adds what line changes in old to the report.
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
