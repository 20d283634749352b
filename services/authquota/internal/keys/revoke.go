package keys

import (
	"context"
	"errors"

	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/accountdb"
)

// Revoke revokes a key on behalf of actor and returns it. Revoking it again changes nothing. If
// leaked, the mail to the holder says that others may have the key.
func (s *Store) Revoke(ctx context.Context, actor, id string, leaked bool) (Key, error) {
	var key Key
	err := s.db.Change(ctx, func(tx *accountdb.Tx) (err error) {
		key, err = revoke(tx, actor, id, leaked)
		return err
	})
	return key, err
}

func revoke(tx *accountdb.Tx, actor, id string, leaked bool) (Key, error) {
	if err := tx.TouchOwner(id); err != nil { // also of a revoked key: the revocation may not be in effect yet
		return Key{}, err
	}
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
	detail, template := map[string]any{"account": key.Account}, "key-revoked"
	if leaked {
		detail["leaked"], template = true, "key-leaked"
	}
	return key, errors.Join(
		tx.Touch(key.Account), // it may have been connected meanwhile
		tx.Record(actor, "key.revoke", id, detail),
		tx.Notify(key.Account, template, map[string]string{"name": key.Title(), "key": key.Shown()}),
	)
}

// RevokeOwn revokes a key of the account on behalf of its person.
func (s *Store) RevokeOwn(ctx context.Context, id, key string) (Key, error) {
	var revoked Key
	err := s.db.Change(ctx, func(tx *accountdb.Tx) error {
		if err := tx.Touch(id); err != nil {
			return err
		}
		if _, err := lockOwnKey(tx, id, key); err != nil {
			return err
		}
		var err error
		revoked, err = revoke(tx, id, key, false)
		return err
	})
	return revoked, err
}

// EndAll revokes all keys of an account that is being closed and withdraws its open requests. It
// returns the number of keys.
func EndAll(tx *accountdb.Tx, accountID string) (int, error) {
	if err := tx.Touch(accountID); err != nil {
		return 0, err
	}
	var rows []keyRow
	err := tx.Model(&rows).Clauses(clause.Returning{Columns: []clause.Column{{Name: "id"}}}).
		Where("account_id = ? AND revoked_at IS NULL AND expires_at > ?", accountID, database.Micros(tx.Now)).
		Update("revoked_at", database.Micros(tx.Now)).Error
	if err != nil {
		return 0, err
	}
	for _, k := range rows {
		if err := tx.Record(accountID, "key.revoke", k.ID, map[string]any{"account": accountID}); err != nil {
			return 0, err
		}
	}
	return len(rows), tx.Model(&requestRow{}).Where("account_id = ? AND state IN ?", accountID, openStates).
		Updates(map[string]any{"state": Withdrawn, "decided_at": database.Micros(tx.Now)}).Error
}
