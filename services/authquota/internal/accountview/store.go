// Package accountview reads accounts and the audit log for operators and changes accounts on their behalf.
package accountview

import (
	"context"
	"errors"

	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/dbtx"
	"opportunity.internal/services/authquota/internal/keys"
)

// Store reads and changes accounts.
type Store struct {
	db   *dbtx.DB
	keys *keys.Store
}

// NewStore returns a Store.
func NewStore(db *dbtx.DB, keys *keys.Store) *Store { return &Store{db, keys} }

// ChangeAccount applies change on behalf of actor and returns the changed account.
func (s *Store) ChangeAccount(ctx context.Context, actor, id string, change account.Change) (account.Account, error) {
	var changed account.Account
	err := s.db.Change(ctx, func(tx *dbtx.Tx) error {
		a, err := account.Lock(tx, id)
		if err != nil {
			return err
		}
		before := a.TierAt(tx.Now)
		detail := change.Apply(&a, tx.Now)
		changed = a
		if detail == nil {
			return nil
		}
		if err := account.Save(tx, a); err != nil {
			return err
		}
		var notice error
		if change.Mail != "" {
			notice = tx.Notify(id, change.Mail, change.Data)
		}
		return errors.Join(notice, tx.Record(actor, change.Action, id, detail), tx.QueueRaise(id), account.NotifyTier(tx, before, a))
	})
	return changed, err
}
