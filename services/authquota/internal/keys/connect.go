package keys

import (
	"context"
	"errors"
	"slices"

	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/keyusage"
)

// Connect merges the account of the key with one of the digests into the person's account: its
// keys, the better of the granted tiers, its entitlements and today's usage. It returns the number
// of moved keys.
//
// A key can be connected once: its account must not have a person, and the account of a person is
// never merged into another.
func (s *Store) Connect(ctx context.Context, id string, digests []string) (moved int, err error) {
	err = s.db.Change(ctx, func(tx *accountdb.Tx) error {
		key, err := findKey(tx.DB, "WHERE k.digest IN ?", digests)
		if err != nil {
			return err
		}
		to, from, err := lockBoth(tx, id, key.Row.AccountID)
		if err != nil {
			return err
		}
		if err := connectable(tx, key.toKey(), to, from); err != nil {
			return err
		}
		mine, err := keysInUse(tx, to.ID)
		if err != nil {
			return err
		}
		theirs, err := keysInUse(tx, from.ID)
		if err != nil {
			return err
		}
		if mine+theirs > MaxActive {
			return rejection("This key comes with %d active keys, and an account can have %d, pending requests included. "+
				"Revoke a key or withdraw a request first.", theirs, MaxActive)
		}
		moved, err = merge(tx, to, from)
		return err
	})
	return moved, err
}

// lockBoth locks both accounts in the order of their IDs, to prevent deadlocks.
func lockBoth(tx *accountdb.Tx, id, other string) (holder, from account.Account, err error) {
	ids := []string{id, other}
	slices.Sort(ids)
	for _, next := range slices.Compact(ids) {
		if next == id {
			if holder, err = lockHolder(tx, id); err != nil {
				return holder, from, err
			}
		}
		if next != other {
			continue
		}
		from, err = account.Lock(tx, other)
		switch problem.Of(err).Code {
		case problem.NotFound: // merged into another account since the key was read
			return holder, from, Connected()
		case problem.InvalidParameter: // closed
			return holder, from, KeyEnded(Revoked)
		}
		if err != nil {
			return holder, from, err
		}
	}
	return holder, from, nil
}

// connectable returns an error if the key cannot be connected. Both accounts must be locked.
func connectable(tx *accountdb.Tx, key Key, to, from account.Account) error {
	var people int64
	if err := tx.Table("people").Where("account_id = ?", from.ID).Count(&people).Error; err != nil {
		return err
	}
	switch {
	case from.ID == to.ID:
		return rejection("This key already belongs to your account.")
	case people > 0:
		return Connected()
	case from.SuspendedAt != nil:
		return rejection("This key is suspended. Write to the operator of the service.")
	case key.StatusAt(tx.Now) != Active:
		return KeyEnded(key.StatusAt(tx.Now))
	}
	return nil
}

func merge(tx *accountdb.Tx, to, from account.Account) (moved int, err error) {
	var rows []keyRow
	err = tx.Model(&rows).Clauses(clause.Returning{Columns: []clause.Column{{Name: "id"}}}).
		Where("account_id = ?", from.ID).Update("account_id", to.ID).Error
	if err != nil {
		return 0, err
	}
	granted, before := account.HigherTier(to.Granted, from.Granted), to.TierAt(tx.Now)
	detail := map[string]any{"from": from.ID, "keys": len(rows), "tier": granted, "tierBefore": to.Granted}
	to.Granted, to.Paid = granted, append(to.Paid, from.Paid...)
	return len(rows), errors.Join(
		keyusage.MoveUsage(tx, from.ID, to.ID),
		account.Merge(tx, from.ID, to.ID, granted),
		tx.Record(to.ID, "account.merge", to.ID, detail),
		account.NotifyTier(tx, before, to))
}
