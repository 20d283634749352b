package database

import (
	"context"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
)

// SetBack is a change or checkpoint that another service has seen in this store and that the store lacks: the store was set back, for
// example restored from a backup. It is open until an operator accepts the loss. It is deleted if the store has the change again.
type SetBack struct {
	Kind       Kind   `gorm:"primaryKey"`
	Number     int64  `gorm:"primaryKey;autoIncrement:false"` // sequence of the change, or number of the checkpoint
	ID         string `gorm:"primaryKey"`                     // of the change, empty for any with the sequence; of the checkpoint, the SHA-256 of Note
	Note       string // signed text of the checkpoint
	FoundAt    int64
	Generation int64 // of the store, which begins with the acceptance; 0 while open
	AcceptedAt int64
	AcceptedBy string
}

// Kind is the kind of data that a SetBack names.
type Kind string

// Kinds.
const (
	Change     Kind = "change"
	Checkpoint Kind = "checkpoint"
)

// Open reports whether no operator has accepted the loss.
func (s SetBack) Open() bool { return s.Generation == 0 }

// Is reports whether both name the same change or checkpoint.
func (s SetBack) Is(other SetBack) bool {
	return s.Kind == other.Kind && s.Number == other.Number && s.ID == other.ID
}

// SetBacks returns the open and the accepted set-backs, in the order in which they were found.
func (d *DB) SetBacks(ctx context.Context) ([]SetBack, error) {
	var all []SetBack
	err := d.WithContext(ctx).Order("found_at, kind, number").Find(&all).Error
	return all, Outage(err)
}

// AddSetBack records an open SetBack, unless it is recorded.
func (d *DB) AddSetBack(ctx context.Context, s SetBack) error {
	return Outage(d.WithContext(ctx).Clauses(clause.OnConflict{DoNothing: true}).Create(&s).Error)
}

// DeleteSetBack deletes an open SetBack.
func (d *DB) DeleteSetBack(ctx context.Context, s SetBack) error {
	return Outage(d.WithContext(ctx).Where("generation = 0").Delete(&s).Error)
}

// AcceptSetBacks accepts every open SetBack, which begins a generation of the store. It returns those that it accepted; without any, no
// generation begins.
func (d *DB) AcceptSetBacks(ctx context.Context, now time.Time, operator string) (accepted []SetBack, err error) {
	err = d.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		var all []SetBack
		if err := tx.Find(&all).Error; err != nil {
			return err
		}
		begins := Generation(all) + 1
		for _, s := range all {
			if s.Open() {
				s.Generation, s.AcceptedAt, s.AcceptedBy = begins, now.UnixMicro(), operator
				accepted = append(accepted, s)
			}
		}
		if len(accepted) == 0 {
			return nil
		}
		return tx.Save(&accepted).Error
	})
	return accepted, Outage(err)
}

// Generation returns the current generation of a store, counted from 1.
func Generation(all []SetBack) int64 {
	generation := int64(1)
	for _, s := range all {
		generation = max(generation, s.Generation)
	}
	return generation
}

// feedCopy is the state of the copy of another service's feed, besides its position.
type feedCopy struct {
	Feed        string `gorm:"primaryKey"`
	Sequence    int64
	Mark        string
	StartedOver bool // data from before is still in the copy
}

func (feedCopy) TableName() string { return "feed_copies" }

// SeenMark returns the mark of the newest change that the copy of feed has seen, and whether the copy has started over and is not complete
// yet.
func SeenMark(tx *gorm.DB, feed string) (seen api.FeedMark, startedOver bool, err error) {
	c := feedCopy{Feed: feed}
	err = tx.Take(&c).Error
	return api.FeedMark{Sequence: c.Sequence, ID: c.Mark}, c.StartedOver, Outage(err)
}

// SaveMark records that the copy of feed has seen a change. It ignores one without an id, or older than the newest seen.
func SaveMark(tx *gorm.DB, feed string, seen api.FeedMark) error {
	if seen.ID == "" {
		return nil
	}
	return tx.Model(&feedCopy{}).Where("feed = ? AND sequence < ?", feed, seen.Sequence).
		Updates(map[string]any{"sequence": seen.Sequence, "mark": seen.ID}).Error
}

// StartCopyOver forgets the mark of feed, and reports false if the copy has seen another change since.
func StartCopyOver(tx *gorm.DB, feed string, seen api.FeedMark) (bool, error) {
	done := tx.Model(&feedCopy{}).Where("feed = ? AND sequence = ? AND mark = ?", feed, seen.Sequence, seen.ID).
		Updates(map[string]any{"sequence": 0, "mark": "", "started_over": true})
	return done.RowsAffected > 0, done.Error
}

// EndCopyOver records that the copy of feed has no more data from before it started over.
func EndCopyOver(tx *gorm.DB, feed string) error {
	return tx.Model(&feedCopy{}).Where("feed = ?", feed).Update("started_over", false).Error
}
