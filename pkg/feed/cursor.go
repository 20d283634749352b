package feed

import "gorm.io/gorm"

// Cursor is the position of a copy, the only row of the table feed_cursor.
type Cursor struct {
	Position  int64  // sequence of the last saved change
	Mark      string // of the page with that change
	Restarted bool   // the copy has started over: data with the sequence 0 is from before
}

// ReadCursor reads the cursor of the copy in a database.
func ReadCursor(db *gorm.DB) (c Cursor, err error) {
	err = db.Raw("SELECT position, mark, restarted FROM feed_cursor WHERE id = 1").Scan(&c).Error
	return c, err
}

// Move moves the cursor in a database. moved is false if it is not at from.
func (from Cursor) Move(tx *gorm.DB, to Cursor) (moved bool, err error) {
	done := tx.Exec(`UPDATE feed_cursor SET position = ?, mark = ?, restarted = ?
		WHERE id = 1 AND position = ? AND mark = ? AND restarted = ?`,
		to.Position, to.Mark, to.Restarted, from.Position, from.Mark, from.Restarted)
	return done.RowsAffected > 0, done.Error
}
