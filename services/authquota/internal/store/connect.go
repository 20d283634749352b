package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/usage"
)

// Connect merges the account of the key with one of the digests into the person's account: its keys, the better of the granted
// tiers, its entitlements and today's usage. It returns the number of moved keys.
//
// A key can be connected once: its account must not have a person, and the account of a person is never merged into another.
func (s *Store) Connect(ctx context.Context, id string, digests []string) (moved int, err error) {
	err = s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		key, err := findKey(tx, "WHERE k.digest IN ?", digests)
		if err != nil {
			return err
		}
		to, from, err := lockBoth(tx, id, key.Row.AccountID)
		if err != nil {
			return err
		}
		if err := connectable(tx, now, key.toKey(), to, from); err != nil {
			return err
		}
		mine, err := keysInUse(tx, now, to.ID)
		if err != nil {
			return err
		}
		theirs, err := keysInUse(tx, now, from.ID)
		if err != nil {
			return err
		}
		if mine+theirs > account.MaxActive {
			return account.NoPlaceFor(theirs)
		}
		moved, err = s.merge(tx, now, to, from)
		return err
	})
	return moved, err
}

// lockBoth locks both accounts in the order of their IDs, to prevent deadlocks.
func lockBoth(tx *gorm.DB, id, other string) (holder, from account.Account, err error) {
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
		from, err = lockAccount(tx, other)
		switch problem.Of(err).Code {
		case problem.NotFound: // merged into another account since the key was read
			return holder, from, account.Connected()
		case problem.InvalidParameter: // closed
			return holder, from, account.KeyEnded(account.Revoked)
		}
		if err != nil {
			return holder, from, err
		}
	}
	return holder, from, nil
}

// connectable returns an error if the key cannot be connected. Both accounts must be locked.
func connectable(tx *gorm.DB, now time.Time, key account.Key, to, from account.Account) error {
	var people int64
	if err := tx.Table("people").Where("account_id = ?", from.ID).Count(&people).Error; err != nil {
		return err
	}
	switch {
	case from.ID == to.ID:
		return account.OwnAlready()
	case people > 0:
		return account.Connected()
	case from.SuspendedAt != nil:
		return account.KeySuspended()
	case key.StatusAt(now) != account.Active:
		return account.KeyEnded(key.StatusAt(now))
	}
	return nil
}

func (s *Store) merge(tx *gorm.DB, now time.Time, to, from account.Account) (moved int, err error) {
	keys := tx.Model(&keyRow{}).Where("account_id = ?", from.ID).Update("account_id", to.ID)
	if keys.Error != nil {
		return 0, keys.Error
	}
	granted, before := account.Better(to.Granted, from.Granted), to.TierAt(now)
	errs := []error{
		moveUsage(tx, from.ID, to.ID),
		tx.Model(&accountRow{}).Where("id = ?", from.ID).Update("merged_into", to.ID).Error,
		tx.Model(&accountRow{}).Where("id = ?", to.ID).Update("tier", granted).Error,
		tx.Model(&entitlementRow{}).Where("holder_id = ?", from.ID).Update("holder_id", to.ID).Error,
		record(tx, now, to.ID, "account.merge", to.ID, map[string]any{
			"from": from.ID, "keys": keys.RowsAffected, "tier": granted, "tierBefore": to.Granted,
		}),
		queueRaise(tx, to.ID), // the move itself increments the epoch of the other account
	}
	for _, m := range usage.Moves(from.ID, to.ID, now) {
		errs = append(errs, tx.Create(&moveRow{Day: m.Day, FromAccount: m.From, ToAccount: m.To}).Error)
	}
	to.Granted, to.Paid = granted, append(to.Paid, from.Paid...)
	errs = append(errs, s.notifyTier(tx, now, before, to))
	return int(keys.RowsAffected), database.Outage(errors.Join(errs...))
}
