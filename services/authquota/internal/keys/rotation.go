package keys

import (
	"context"
	"errors"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
)

// Rotate issues a successor with a full life of its own for an active key of the account. The key
// itself ends after Grace, or earlier if it expires first. A key can be rotated once, and not while
// its own predecessor is in its grace period. After accountdb.ErrNotInEffect, both are valid.
func (s *Store) Rotate(ctx context.Context, id, key string, stored Record) (successor, old Key, err error) {
	err = s.db.Change(ctx, func(tx *accountdb.Tx) error {
		a, err := lockHolder(tx, id)
		if err != nil {
			return err
		}
		row, err := lockOwnKey(tx, id, key)
		if err != nil {
			return err
		}
		old = keyOf(a, row)
		if !old.Counts(tx.Now) {
			return NotRotatable()
		}
		var before int64 // otherwise an account could have any number of keys, all but one in their grace periods
		err = tx.Model(&keyRow{}).Where("successor_id = ? AND revoked_at IS NULL AND expires_at > ?", key, database.Micros(tx.Now)).Count(&before).Error
		if err != nil {
			return err
		}
		if before > 0 {
			return rejection("The key that this one replaced still works. Revoke the old one first, or wait until it has ended.")
		}
		next := row
		next.ID, next.Digest, next.Prefix, next.LastFour = NewID(), stored.Digest, stored.Prefix, stored.LastFour
		next.CreatedAt, next.ExpiresAt, next.LastUsedAt = database.Micros(tx.Now), database.Micros(old.SuccessorEnd(tx.Now)), nil
		successor = keyOf(a, next)
		old.ReplacedAt, old.ExpiresAt, old.Successor = &tx.Now, old.GraceEnd(tx.Now), successor.ID
		if err := tx.Create(&next).Error; err != nil {
			return err
		}
		return errors.Join(
			tx.Model(&keyRow{}).Where("id = ?", key).Updates(map[string]any{
				"expires_at": database.Micros(old.ExpiresAt), "replaced_at": database.Micros(tx.Now), "successor_id": successor.ID,
			}).Error,
			tx.Record(id, "key.rotate", key, map[string]any{
				"account": id, "successor": successor.ID, "endsAt": old.ExpiresAt, "successorEndsAt": successor.ExpiresAt,
			}),
			tx.Touch(id),
			tx.Notify(id, "key-rotated", map[string]string{
				"name": old.Title(), "key": old.Shown(), "when": account.FormatTime(old.ExpiresAt), "until": account.FormatTime(successor.ExpiresAt),
			}),
		)
	})
	return successor, old, err
}
