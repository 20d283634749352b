package highwater

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/database"
)

// Loss is a change or a checkpoint that a keeper has seen in a store and that the store lacks. It is open until an operator accepts it. It is
// deleted if the store has it again.
type Loss struct {
	Kind       Kind   `gorm:"primaryKey"`
	Number     int64  `gorm:"primaryKey;autoIncrement:false"` // sequence of the change, number of the checkpoint, or events of the log
	ID         string `gorm:"primaryKey"`                     // of the change, empty for any with the sequence; of the checkpoint, the SHA-256 of Note
	Note       string // signed text of the checkpoint
	FoundAt    int64
	Generation int64 // of the store, which begins with the acceptance; 0 while open
	AcceptedAt int64
	AcceptedBy string
}

// TableName implements gorm's Tabler.
func (Loss) TableName() string { return "set_backs" }

// Kind is the kind of data that is lost.
type Kind string

// Kinds.
const (
	Change        Kind = "change"
	Checkpoint    Kind = "checkpoint"
	LogCheckpoint Kind = "log checkpoint" // that a witness has cosigned
)

// Open reports whether no operator has accepted the loss.
func (l Loss) Open() bool { return l.Generation == 0 }

// Is reports whether both are of the same change or checkpoint.
func (l Loss) Is(other Loss) bool {
	return l.Kind == other.Kind && l.Number == other.Number && l.ID == other.ID
}

// CheckpointLoss returns the loss of a checkpoint of either kind.
func CheckpointLoss(kind Kind, number int64, note string) Loss {
	sum := sha256.Sum256([]byte(note))
	return Loss{Kind: kind, Number: number, ID: hex.EncodeToString(sum[:]), Note: note}
}

// Losses returns the open and the accepted losses of a store, in the order in which they were found. Releases before marks were authenticated
// recorded any number: it leaves out those that no change or checkpoint can have.
func Losses(db *gorm.DB) ([]Loss, error) {
	var all []Loss
	err := db.Where("number BETWEEN 1 AND ?", MaxSequence).Order("found_at, kind, number").Find(&all).Error
	return all, database.Outage(err)
}

// AddLoss records an open loss, unless it is recorded.
func AddLoss(db *gorm.DB, l Loss) error {
	return database.Outage(db.Clauses(clause.OnConflict{DoNothing: true}).Create(&l).Error)
}

func deleteLoss(db *gorm.DB, l Loss) error {
	return database.Outage(db.Where("generation = 0").Delete(&l).Error)
}

// Accept accepts every open loss, which begins a generation of the store. It returns those that it accepted; without any, no generation
// begins.
func Accept(db *gorm.DB, now time.Time, operator string) (accepted []Loss, err error) {
	err = db.Transaction(func(tx *gorm.DB) error {
		all, err := Losses(tx)
		if err != nil {
			return err
		}
		begins := GenerationOf(all).Number + 1
		for _, l := range all {
			if l.Open() {
				l.Generation, l.AcceptedAt, l.AcceptedBy = begins, now.UnixMicro(), operator
				accepted = append(accepted, l)
			}
		}
		if len(accepted) == 0 {
			return nil
		}
		return tx.Save(&accepted).Error
	})
	return accepted, database.Outage(err)
}

// Generation is a period of a store between accepted losses.
type Generation struct {
	Number int64  // counted from 1
	ID     string // of the losses with which it began; empty for the first. A store that was restored again begins another one of the same number.
}

// GenerationOf returns the current generation of the store with these losses.
func GenerationOf(all []Loss) Generation {
	g := Generation{Number: 1}
	for _, l := range all {
		g.Number = max(g.Number, l.Generation)
	}
	if g.Number == 1 {
		return g
	}
	var lines []string
	for _, l := range all {
		if l.Generation == g.Number {
			lines = append(lines, fmt.Sprintf("%s %d %s %d\n", l.Kind, l.Number, l.ID, l.AcceptedAt))
		}
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "")))
	g.ID = hex.EncodeToString(sum[:8])
	return g
}

// Describe returns the losses as text.
func Describe(all []Loss) string {
	parts := make([]string, len(all))
	for i, l := range all {
		parts[i] = strings.TrimSpace(fmt.Sprintf("%s %d %s", l.Kind, l.Number, l.ID))
	}
	return strings.Join(parts, ", ")
}
