package keys

import (
	"context"
	"errors"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/dbtx"
)

// Revoke revokes a key on behalf of actor and returns it. Revoking it again changes nothing. If leaked, the mail to the holder
// says that others may have the key.
func (s *Store) Revoke(ctx context.Context, actor, id string, leaked bool) (Key, error) {
	var key Key
	err := s.db.Change(ctx, func(tx *dbtx.Tx) (err error) {
		key, err = revoke(tx, actor, id, leaked)
		return err
	})
	return key, err
}

func revoke(tx *dbtx.Tx, actor, id string, leaked bool) (Key, error) {
	update := tx.Model(&keyRow{}).Where("id = ? AND revoked_at IS NULL", id).Update("revoked_at", database.Micros(tx.Now))
	if update.Error != nil {
		return Key{}, update.Error
	}
	row, err := findKey(tx.DB, "WHERE k.id = ?", id)
	if err != nil {
		return Key{}, err
	}
	key := row.toKey()
	if update.RowsAffected == 0 {
		return key, nil
	}
	tx.Changed("api_keys", "id", dbtx.One(id), "revoked_at")
	detail, template := map[string]any{"account": key.Account}, "key-revoked"
	if leaked {
		detail["leaked"], template = true, "key-leaked"
	}
	return key, errors.Join(
		tx.Record(actor, "key.revoke", id, detail), tx.QueueRaise(key.Account),
		tx.Notify(key.Account, template, map[string]string{"name": key.Title(), "key": key.Shown()}),
	)
}

// RevokeOwn revokes a key of the account on behalf of its person.
func (s *Store) RevokeOwn(ctx context.Context, id, key string) (Key, error) {
	var revoked Key
	err := s.db.Change(ctx, func(tx *dbtx.Tx) error {
		if _, err := lockOwnKey(tx, id, key); err != nil {
			return err
		}
		var err error
		revoked, err = revoke(tx, id, key, false)
		return err
	})
	return revoked, err
}
