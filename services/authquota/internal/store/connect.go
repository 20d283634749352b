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

// Connect takes the account of the key that is kept under one of the digests over into the person's account: its keys, the better of
// both granted tiers, what it has paid for, and what was used today. It returns how many keys came along.
//
// A key comes to a person once: its account has none then, and the person's is taken over by nobody.
func (s *Store) Connect(ctx context.Context, id string, digests []string) (moved int, err error) {
	err = s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		key, err := take(tx, "WHERE k.digest IN ?", digests)
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
		mine, err := places(tx, now, to.ID)
		if err != nil {
			return err
		}
		theirs, err := places(tx, now, from.ID)
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

// lockBoth locks the accounts in the order of their ids, so that two who connect to each other do not wait for each other.
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

// connectable refuses a key that cannot be connected. Both accounts are locked.
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
		owe(tx, to.ID), // the epoch of the other is raised with the move
	}
	for _, m := range usage.Moves(from.ID, to.ID, now) {
		errs = append(errs, tx.Create(&moveRow{Day: m.Day, FromAccount: m.From, ToAccount: m.To}).Error)
	}
	to.Granted, to.Paid = granted, append(to.Paid, from.Paid...)
	errs = append(errs, s.tellOfTier(tx, now, before, to))
	return int(keys.RowsAffected), database.Outage(errors.Join(errs...))
}
