package highwater

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
)

// Keeper keeps the newest marks of one store outside its database.
type Keeper interface {
	// Marks returns the marks. There are several if the keeper has several places.
	Marks(ctx context.Context) ([]string, error)
	// Replace replaces the marks by the newest. It reports false, and replaces nothing, if they differ from seen: the owner has verified only
	// those. lost means that an operator has accepted that the store lacks one of them.
	Replace(ctx context.Context, seen []string, newest string, lost bool) (replaced bool, err error)
}

// Row keeps the mark of another service's store in the database of this one.
type Row struct {
	Store string // name of the owner
	DB    *database.DB

	Log *slog.Logger // of copies that start over

	// StartOver calls replace in a transaction and, if that returns true, starts the copy of the owner's feed over in it. nil without a copy.
	StartOver func(ctx context.Context, replace func(tx *gorm.DB) (bool, error)) error
}

// copyRow has the mark of a store. Releases before marks were authenticated have rows with other names.
type copyRow struct {
	Feed        string `gorm:"primaryKey"`
	Sequence    int64  // unused
	Mark        string
	StartedOver bool // data from before is still in the copy
}

func (copyRow) TableName() string { return "feed_copies" }

// RowOf returns the key in the table feed_copies of the mark of a store.
func RowOf(store string) string { return "mark of " + store }

// Marks implements Keeper.
func (r Row) Marks(ctx context.Context) ([]string, error) {
	row, err := readRow(r.DB.WithContext(ctx), r.Store)
	if row.Mark == "" {
		return nil, err
	}
	return []string{row.Mark}, err
}

func readRow(db *gorm.DB, store string) (row copyRow, err error) {
	var rows []copyRow
	err = db.Where("feed = ?", RowOf(store)).Find(&rows).Error
	if len(rows) > 0 {
		row = rows[0]
	}
	return row, database.Outage(err)
}

// Replace implements Keeper.
func (r Row) Replace(ctx context.Context, seen []string, newest string, lost bool) (replaced bool, err error) {
	if !lost || r.StartOver == nil {
		replaced, err = replaceRow(r.DB.WithContext(ctx), r.Store, seen, newest, lost)
		return replaced, database.Outage(err)
	}
	err = r.StartOver(ctx, func(tx *gorm.DB) (bool, error) {
		replaced, err = replaceRow(tx, r.Store, seen, newest, lost)
		return replaced, err
	})
	if replaced && err == nil {
		r.Log.WarnContext(ctx, "copying all data of a service again: an operator accepted that its database lacks changes", "service", r.Store)
	}
	return replaced, err
}

func replaceRow(tx *gorm.DB, store string, seen []string, newest string, lost bool) (replaced bool, err error) {
	row := copyRow{Feed: RowOf(store), Mark: newest, StartedOver: lost}
	if len(seen) == 0 {
		done := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&row)
		return done.RowsAffected > 0, done.Error
	}
	values := map[string]any{"mark": newest}
	if lost {
		values["started_over"] = true
	}
	done := tx.Model(&copyRow{}).Where("feed = ? AND mark IN ?", row.Feed, append(seen, newest)).Updates(values) // another replica may be first
	return done.RowsAffected > 0, done.Error
}

// StartedOver reports whether the copy of a store's feed has started over and may have data from before.
func StartedOver(db *gorm.DB, store string) (bool, error) {
	row, err := readRow(db, store)
	return row.StartedOver, err
}

// EndCopyOver records that the copy of a store's feed has no more data from before it started over.
func EndCopyOver(tx *gorm.DB, store string) error {
	return tx.Model(&copyRow{}).Where("feed = ?", RowOf(store)).Update("started_over", false).Error
}

// Peer is a Keeper in another service.
type Peer struct {
	Store  string
	Client *peer.Client
}

// Marks implements Keeper. It returns none for a peer of a release without marks.
func (p Peer) Marks(ctx context.Context) ([]string, error) {
	var kept api.KeptMarks
	err := p.Client.Get(ctx, api.MarksPath+p.Store, &kept)
	return kept.Marks, olderRelease(err)
}

// Replace implements Keeper.
func (p Peer) Replace(ctx context.Context, seen []string, newest string, lost bool) (replaced bool, err error) {
	var kept api.KeptMarks
	err = p.Client.Post(ctx, api.MarksPath+p.Store, api.ReplaceMarks{Seen: seen, Newest: newest, Lost: lost}, &kept)
	if err != nil {
		return true, olderRelease(err)
	}
	return slices.Contains(kept.Marks, newest), nil
}

// olderRelease returns nil for the response of a release without the path.
func olderRelease(err error) error {
	if failed := new(peer.StatusError); errors.As(err, &failed) && failed.Status == http.StatusNotFound {
		return nil
	}
	return err
}

// Transport presents the marks of a keeper with each request to the owner of the store, and replaces them by the one in a successful response.
type Transport struct {
	Next   http.RoundTripper
	Keeper Keeper
}

// RoundTrip implements http.RoundTripper. It fails if the keeper cannot keep the new mark: the caller must not use newer data than that. It
// repeats a GET request if another one has replaced the marks meanwhile.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	for range exchangeAttempts {
		resp, replaced, err := t.roundTrip(r)
		if err != nil || replaced || r.Method != http.MethodGet {
			return resp, err
		}
		_ = resp.Body.Close()
	}
	return nil, errReplaced
}

func (t Transport) roundTrip(r *http.Request) (resp *http.Response, replaced bool, err error) {
	seen, err := t.Keeper.Marks(r.Context())
	if err != nil {
		return nil, false, err
	}
	r = r.Clone(r.Context())
	r.Header.Set(api.SeenMarksHeader, strings.Join(seen, ","))
	if resp, err = t.Next.RoundTrip(r); err != nil {
		return nil, false, err
	}
	newest, lost := resp.Header.Get(api.MarkHeader), resp.Header.Get(api.LostHeader) != ""
	if newest == "" || !lost && len(seen) == 1 && seen[0] == newest {
		return resp, true, nil // an older release, an error, or nothing new
	}
	if replaced, err = t.Keeper.Replace(r.Context(), seen, newest, lost); err != nil {
		_ = resp.Body.Close()
		return nil, false, err
	}
	return resp, replaced, nil
}

var errReplaced = errors.New("the marks were replaced by other requests on each attempt")
