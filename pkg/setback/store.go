package setback

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
)

// Store is the database of an owner. It has the tables generations and claims. Its methods return
// problem.Unavailable during an outage.
type Store struct {
	DB      *database.DB
	Changes string // table with the columns sequence and id of changes, in the order of commits
}

// Verdict is the result of a comparison of a mark with a database.
type Verdict int

// Verdicts.
const (
	Lacking Verdict = iota // the change, or the generation, is missing
	Present                // in the current generation
	GivenUp                // of an earlier generation, which an operator gave up
)

func (s Store) state(ctx context.Context) (newest Mark, claims []string, err error) {
	var row struct {
		Mark   Mark `gorm:"embedded"`
		Claims bool
	}
	err = s.DB.WithContext(ctx).Raw(`SELECT g.id AS generation, coalesce(c.sequence, 0) AS sequence,
			coalesce(c.id, '') AS id, EXISTS (SELECT 1 FROM claims) AS claims
		FROM (SELECT id FROM generations ORDER BY began_at DESC LIMIT 1) g
		LEFT JOIN (SELECT sequence, id FROM ` + s.Changes + ` ORDER BY sequence DESC LIMIT 1) c ON true`).Scan(&row).Error
	if err == nil && row.Claims {
		claims, err = s.Claims(ctx)
	}
	return row.Mark, claims, database.Outage(err)
}

// Verdict compares a mark with the database.
func (s Store) Verdict(ctx context.Context, m Mark) (Verdict, error) {
	var row struct {
		Known, Newest, Present bool
	}
	err := s.DB.WithContext(ctx).Raw(`SELECT EXISTS (SELECT 1 FROM generations WHERE id = ?) AS known,
			(SELECT id FROM generations ORDER BY began_at DESC LIMIT 1) = ? AS newest,
			EXISTS (SELECT 1 FROM `+s.Changes+` WHERE sequence = ? AND id = ?) AS present`,
		m.Generation, m.Generation, m.Sequence, m.ID).Scan(&row).Error
	switch {
	case err != nil:
		return Lacking, database.Outage(err)
	case row.Known && !row.Newest:
		return GivenUp, nil
	case row.Newest && (row.Present || m.Sequence == 0):
		return Present, nil
	}
	return Lacking, nil
}

// maxClaims limits the claims in a database, so that forged marks do not fill it.
const maxClaims = 100

// claim records that the database lacks a mark, for other processes and for an operator.
func (s Store) claim(ctx context.Context, mark string) error {
	return database.Outage(s.DB.WithContext(ctx).Exec(
		"INSERT INTO claims (mark) SELECT ? WHERE (SELECT count(*) FROM claims) < ? ON CONFLICT (mark) DO NOTHING", mark,
		maxClaims).Error)
}

// Claims returns the marks that the database lacks. While there are any, it is set back.
func (s Store) Claims(ctx context.Context) (marks []string, err error) {
	err = s.DB.WithContext(ctx).Raw("SELECT mark FROM claims ORDER BY mark").Scan(&marks).Error
	return marks, database.Outage(err)
}

func (s Store) deleteClaim(ctx context.Context, mark string) error {
	return database.Outage(s.DB.WithContext(ctx).Exec("DELETE FROM claims WHERE mark = ?", mark).Error)
}

// Decision is a function that carries out the decision of an operator, in its transaction.
type Decision func(tx *gorm.DB) error

// Begin begins a generation on the decision of an operator, and gives up those of the claims and of
// further marks. do may be nil.
func (s Store) Begin(ctx context.Context, now time.Time, operator string, do Decision, further ...string) error {
	id := make([]byte, 8)
	_, _ = rand.Read(id) // never fails
	began := now.UnixMicro()
	return database.Outage(s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		var claims []string
		err := tx.Raw("SELECT mark FROM claims").Scan(&claims).Error
		for _, text := range append(claims, further...) {
			if m, ok := Parse(text); ok {
				err = errors.Join(err, tx.Exec(`INSERT INTO generations (id, began_at, begun_by) VALUES (?, 0, '')
					ON CONFLICT (id) DO NOTHING`, m.Generation).Error)
			}
		}
		err = errors.Join(err, tx.Exec(`INSERT INTO generations (id, began_at, begun_by)
			SELECT ?, CASE WHEN max(began_at) < ? THEN ? ELSE max(began_at) + 1 END, ? FROM generations`,
			hex.EncodeToString(id), began, began, operator).Error, tx.Exec("DELETE FROM claims").Error)
		if err != nil || do == nil {
			return err
		}
		return do(tx)
	}))
}
