package keys

import (
	"context"
	"errors"
	"time"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
)

// Issue creates a key in the account of the order, or in a new account. The order must be valid.
func (s *Store) Issue(ctx context.Context, actor string, order Order, life time.Duration, stored Record) (Key, error) {
	var key Key
	err := s.db.Change(ctx, func(tx *accountdb.Tx) error {
		a, err := holder(tx, actor, order)
		if err != nil {
			return err
		}
		row := keyRow{
			ID: NewID(), AccountID: a.ID, Digest: stored.Digest, Prefix: stored.Prefix, LastFour: stored.LastFour,
			UseCase: order.UseCase, CreatedAt: database.Micros(tx.Now), ExpiresAt: database.Micros(tx.Now.Add(life)),
		}
		if life < MaxLife {
			us := life.Microseconds()
			row.Life = &us
		}
		if err := tx.Create(&row).Error; err != nil {
			return err
		}
		key = keyOf(a, row)
		return errors.Join(tx.Touch(a.ID), tx.Record(actor, "key.issue", key.ID, map[string]any{
			"account": key.Account, "tier": key.TierAt(tx.Now), "useCase": key.UseCase, "expiresAt": key.ExpiresAt, "test": order.Test,
		}))
	})
	if errors.Is(err, accountdb.ErrNotInEffect) { // it is a key that no gateway knows yet
		err = nil
	}
	return key, err
}

// holder returns the account for a new key. It is locked until tx ends, so that the number of its
// keys does not change.
func holder(tx *accountdb.Tx, actor string, order Order) (account.Account, error) {
	if order.Account == "" {
		a, err := account.Create(tx, order.Tier)
		if err != nil {
			return a, err
		}
		return a, tx.Record(actor, "account.create", a.ID, map[string]any{"tier": a.Granted})
	}
	a, err := account.Lock(tx, order.Account)
	if err != nil {
		return a, err
	}
	if tier := a.TierAt(tx.Now); order.Tier != "" && order.Tier != tier {
		return a, OtherTier(a.ID, tier, order.Tier)
	}
	taken, err := keysInUse(tx, a.ID)
	if err == nil && taken >= MaxActive {
		err = rejection("This account has %d active keys, pending requests included, which is the most it can have. "+
			"Revoke one first.", MaxActive)
	}
	return a, err
}

// keysInUse returns how many of MaxActive keys are in use, including requests that may become keys.
// The account must be locked.
func keysInUse(tx *accountdb.Tx, id string) (taken int, err error) {
	err = tx.Raw(`SELECT (SELECT count(*) FROM api_keys k WHERE k.account_id = ? AND `+counts+`) +
		(SELECT count(*) FROM key_requests r WHERE r.account_id = ? AND r.state IN ?)`,
		id, database.Micros(tx.Now), id, openStates).Scan(&taken).Error
	return taken, err
}

// lockHolder is lockAccount for a person who requests, collects or rotates a key. Sign-in has
// verified the authenticator; lockHolder checks again that there is one, because a key must never
// be issued without it.
func lockHolder(tx *accountdb.Tx, id string) (account.Account, error) {
	a, err := account.Lock(tx, id)
	if err != nil {
		return a, err
	}
	var confirmed []int64
	err = tx.Raw("SELECT totp_confirmed_at FROM people WHERE account_id = ? AND closed_at IS NULL AND totp_confirmed_at IS NOT NULL", id).
		Scan(&confirmed).Error
	switch {
	case err != nil:
		return a, err
	case len(confirmed) == 0:
		return a, rejection("Set up your authenticator first. You need one to get a key.")
	case a.SuspendedAt != nil:
		return a, Suspended()
	}
	return a, nil
}
