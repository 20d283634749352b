// Package store reads accounts and the audit log for operators and changes accounts on their behalf.
package store

import (
	"context"
	"errors"

	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountview"
	"opportunity.internal/services/authquota/internal/dbtx"
)

// Store reads and changes accounts.
type Store struct {
	db    *dbtx.DB
	other Features
}

// Features are the reads of other features that complete an account.
type Features struct {
	ActiveKeys   func(ctx context.Context, accounts []string) (map[string]int, error) // by account
	DescribeKeys func(ctx context.Context, details *accountview.Details) error        // adds the keys to the account
}

// New returns a Store.
func New(db *dbtx.DB, other Features) *Store { return &Store{db, other} }

// ChangeAccount applies change on behalf of actor and returns the changed account.
func (s *Store) ChangeAccount(ctx context.Context, actor, id string, change account.Change) (account.Account, error) {
	var changed account.Account
	err := s.db.Change(ctx, func(tx *dbtx.Tx) error {
		a, err := tx.LockAccount(id)
		if err != nil {
			return err
		}
		before := a.TierAt(tx.Now)
		detail := change.Apply(&a, tx.Now)
		changed = a
		if detail == nil {
			return nil
		}
		if err := tx.SaveAccount(a); err != nil {
			return err
		}
		var notice error
		if change.Mail != "" {
			notice = tx.Notify(id, change.Mail, change.Data)
		}
		return errors.Join(notice, tx.Record(actor, change.Action, id, detail), tx.QueueRaise(id), tx.NotifyTier(before, a))
	})
	return changed, err
}
