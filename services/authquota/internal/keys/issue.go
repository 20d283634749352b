package keys

import (
	"cmp"
	"context"
	"errors"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/keyusage"
)

// CheckOrder returns the order in its canonical form and the life of the key, or an error for the
// first invalid field.
func CheckOrder(o api.KeyOrder) (api.KeyOrder, time.Duration, error) {
	if o.Account != "" {
		if err := accountdb.CheckID("account", o.Account); err != nil {
			return o, 0, err
		}
	}
	if o.Tier == "" && o.Account == "" {
		o.Tier = api.BaseTier
	}
	if o.Tier != "" {
		if err := account.ValidTier(o.Tier); err != nil {
			return o, 0, err
		}
	}
	var err error
	if o.UseCase, err = account.Text("useCase", o.UseCase); err != nil {
		return o, 0, err
	}
	life := MaxLife
	if o.ExpiresIn != "" {
		life, err = api.ParseDuration(o.ExpiresIn)
		life = life.Truncate(time.Microsecond) // the precision of the database
		if err != nil || life <= 0 || life > MaxLife {
			return o, 0, problem.Invalid("expiresIn", "must be a duration such as 30d or 12h, above 0 and at most 365d")
		}
	}
	return o, life, nil
}

// Record is the stored form of a new key. Digest finds it; Prefix and LastFour let people recognize
// it.
type Record struct{ Digest, Prefix, LastFour string }

// Generate returns a new key, which a test key's prefix tells from others, and its stored form,
// hashed with the newest pepper.
func Generate(test bool, peppers [][]byte) (apikey.Key, Record) {
	prefix := apikey.Live
	if test {
		prefix = apikey.Test
	}
	key := apikey.Generate(prefix)
	prefix, last4 := key.Preview()
	return key, Record{key.Digests(peppers[:1])[0], prefix, last4}
}

// NewID returns a key ID. It reveals nothing about the key itself.
func NewID() string { return accountdb.NewID("key_") }

// MaxName is the maximum length of a key name, in characters.
const MaxName = 60

// Name validates a key name and returns its canonical form.
func Name(s string) (string, error) { return account.Line("name", s, MaxName) }

// Issue creates a key in the account of the order, or in a new account. The order must be valid.
func (s *Store) Issue(
	ctx context.Context, actor string, order api.KeyOrder, life time.Duration, stored Record,
) (Key, error) {
	key, err := accountdb.Result(ctx, s.db, func(tx *accountdb.Tx) (Key, error) {
		a, err := holder(tx, actor, order)
		if err != nil {
			return Key{}, err
		}
		key := Key{ID: NewID(), UseCase: order.UseCase, ExpiresAt: tx.Now.Add(life)}
		if life < MaxLife {
			key.Life = life
		}
		if key, err = create(tx, a, key, stored); err != nil {
			return key, err
		}
		return key, errors.Join(tx.Touch(a.ID), tx.Record(actor, "key.issue", key.ID, map[string]any{
			"account": key.Account, "tier": key.TierAt(tx.Now), "useCase": key.UseCase, "expiresAt": key.ExpiresAt,
			"test": order.Test,
		}))
	})
	return key, unlessUnknown(err)
}

// unlessUnknown returns the error of a change that created a key. No gateway knows the key yet, so
// it is no error that the change is not in effect.
func unlessUnknown(err error) error {
	if errors.Is(err, accountdb.ErrNotInEffect) {
		return nil
	}
	return err
}

// create stores a new key with the tier and the entitlements of its account.
func create(tx *accountdb.Tx, a account.Account, key Key, stored Record) (Key, error) {
	key.Standing, key.Account, key.CreatedAt = a.Standing, a.ID, tx.Now
	key.Prefix, key.LastFour = stored.Prefix, stored.LastFour
	return key, tx.DB.Omit("tier").Create(&row{key, stored.Digest}).Error
}

// holder returns the account for a new key. It is locked until tx ends, so that the number of its
// keys does not change.
func holder(tx *accountdb.Tx, actor string, order api.KeyOrder) (account.Account, error) {
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
		return a, rejection("Account %s has the tier %s, not %s. Leave the tier out to issue a %[2]s key, or change the "+
			"tier of the account and all its keys first: opportunity accounts grant %[1]s %[3]s", a.ID, tier, order.Tier)
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
	err = tx.Raw(`SELECT (SELECT count(*) FROM api_keys k WHERE k.account_id = ? AND `+Counted+`) +
		(SELECT count(*) FROM key_requests r WHERE r.account_id = ? AND r.state IN ?)`,
		id, database.Micros(tx.Now), id, openStates).Scan(&taken).Error
	return taken, err
}

// lockHolder locks the account of a person who requests, collects or rotates a key. Sign-in has
// verified the authenticator; lockHolder checks again that there is one, because a key must never
// be issued without it.
func lockHolder(tx *accountdb.Tx, id string) (account.Account, error) {
	a, err := account.Lock(tx, id)
	if err != nil {
		return a, err
	}
	var confirmed []int64
	err = tx.Raw(
		"SELECT totp_confirmed_at FROM people WHERE account_id = ? AND closed_at IS NULL AND totp_confirmed_at IS NOT NULL",
		id).
		Scan(&confirmed).Error
	switch {
	case err != nil:
		return a, err
	case len(confirmed) == 0:
		return a, rejection("Set up your authenticator first. You need one to get a key.")
	case a.SuspendedAt != nil:
		return a, rejection(
			"Your account is suspended. You can revoke keys; everything else is possible again when it is resumed.")
	}
	return a, nil
}

// SuccessorEnd returns when the successor of a key that is rotated at now expires: after a full
// life of its own.
func (k Key) SuccessorEnd(now time.Time) time.Time { return now.Add(cmp.Or(k.Life, MaxLife)) }

// GraceEnd returns when a key that is rotated at now ends.
func (k Key) GraceEnd(now time.Time) time.Time {
	if end := now.Add(Grace); end.Before(k.ExpiresAt) {
		return end
	}
	return k.ExpiresAt
}

// ErrNotRotatable is returned for rotating a key that has ended or was rotated.
var ErrNotRotatable = rejection(
	"This key has ended or was already rotated. If you missed the new key, revoke this one and rotate the new one.")

// Rotate issues a successor with a full life of its own for an active key of the account. The key
// itself ends after Grace, or earlier if it expires first. A key can be rotated once, and not while
// its own predecessor is in its grace period. After accountdb.ErrNotInEffect, both are valid.
func (s *Store) Rotate(ctx context.Context, id, key string, stored Record) (successor, old Key, err error) {
	err = s.db.Change(ctx, func(tx *accountdb.Tx) error {
		a, err := lockHolder(tx, id)
		if err != nil {
			return err
		}
		if old, err = lockOwnKey(tx, id, key); err != nil {
			return err
		}
		old.Standing = a.Standing
		if !old.Counts(tx.Now) {
			return ErrNotRotatable
		}
		var before int64 // otherwise an account could have any number of keys, all but one in their grace periods
		err = tx.Model(&row{}).Where("successor_id = ? AND revoked_at IS NULL AND expires_at > ?", key,
			database.Micros(tx.Now)).Count(&before).Error
		if err != nil {
			return err
		}
		if before > 0 {
			return rejection("The key that this one replaced still works. Revoke the old one first, or wait until it has ended.")
		}
		next := Key{ID: NewID(), Name: old.Name, UseCase: old.UseCase, Life: old.Life, ExpiresAt: old.SuccessorEnd(tx.Now)}
		if successor, err = create(tx, a, next, stored); err != nil {
			return err
		}
		old.ReplacedAt, old.ExpiresAt, old.Successor = &tx.Now, old.GraceEnd(tx.Now), successor.ID
		return errors.Join(
			tx.Table("api_keys").Where("id = ?", key).Updates(map[string]any{
				"expires_at": database.Micros(old.ExpiresAt), "replaced_at": database.Micros(tx.Now), "successor_id": successor.ID,
			}).Error,
			tx.Record(id, "key.rotate", key, map[string]any{
				"account": id, "successor": successor.ID, "endsAt": old.ExpiresAt, "successorEndsAt": successor.ExpiresAt,
			}),
			tx.Touch(id),
			tx.Notify(id, "key-rotated", map[string]string{
				"name": old.Title(), "key": old.Shown(), "when": account.FormatTime(old.ExpiresAt),
				"until": account.FormatTime(successor.ExpiresAt),
			}),
		)
	})
	return successor, old, err
}

// Rename sets the name, which must be valid, of a key of the account.
func (s *Store) Rename(ctx context.Context, id, key, name string) error {
	return s.db.Change(ctx, func(tx *accountdb.Tx) error {
		before, err := lockOwnKey(tx, id, key)
		if err != nil || before.Name == name {
			return err
		}
		return errors.Join(tx.Table("api_keys").Where("id = ?", key).Update("name", name).Error,
			tx.Record(id, "key.rename", key, map[string]any{"account": id, "from": before.Name, "to": name}))
	})
}

// Connect merges the account of the key with one of the digests into the person's account: its
// keys, the better of the granted tiers, its entitlements and today's usage. It returns the number
// of moved keys.
//
// A key can be connected once: its account must not have a person, and the account of a person is
// never merged into another.
func (s *Store) Connect(ctx context.Context, id string, digests []string) (moved int, err error) {
	return accountdb.Result(ctx, s.db, func(tx *accountdb.Tx) (int, error) {
		key, err := findKey(tx.DB, "WHERE k.digest IN ?", digests)
		if err != nil {
			return 0, err
		}
		to, from, err := lockBoth(tx, id, key.Account)
		if err != nil {
			return 0, err
		}
		if err := connectable(tx, key, to, from); err != nil {
			return 0, err
		}
		mine, err := keysInUse(tx, to.ID)
		if err != nil {
			return 0, err
		}
		theirs, err := keysInUse(tx, from.ID)
		if err != nil {
			return 0, err
		}
		if mine+theirs > MaxActive {
			return 0, rejection("This key comes with %d active keys, and an account can have %d, pending requests included. "+
				"Revoke a key or withdraw a request first.", theirs, MaxActive)
		}
		return merge(tx, to, from)
	})
}

var errConnected = rejection("This key already belongs to another person's account.")

func ended(status Status) error { return rejection("This key cannot be connected: it is %s.", status) }

// lockBoth locks both accounts, first in the order of their IDs, to prevent deadlocks.
func lockBoth(tx *accountdb.Tx, id, other string) (holder, from account.Account, err error) {
	if _, err = account.LockAny(tx, min(id, other)); err == nil {
		_, err = account.LockAny(tx, max(id, other))
	}
	if err == nil {
		holder, err = lockHolder(tx, id)
	}
	if err != nil {
		return holder, from, err
	}
	from, err = account.Lock(tx, other)
	switch problem.Of(err).Code {
	case problem.NotFound: // merged into another account since the key was read
		err = errConnected
	case problem.InvalidParameter: // closed
		err = ended(Revoked)
	}
	return holder, from, err
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
		return errConnected
	case from.SuspendedAt != nil:
		return rejection("This key is suspended. Write to the operator of the service.")
	case key.StatusAt(tx.Now) != Active:
		return ended(key.StatusAt(tx.Now))
	}
	return nil
}

func merge(tx *accountdb.Tx, to, from account.Account) (moved int, err error) {
	result := tx.Table("api_keys").Where("account_id = ?", from.ID).Update("account_id", to.ID)
	if result.Error != nil {
		return 0, result.Error
	}
	moved = int(result.RowsAffected)
	granted, before := account.HigherTier(to.Granted, from.Granted), to.TierAt(tx.Now)
	detail := map[string]any{"from": from.ID, "keys": moved, "tier": granted, "tierBefore": to.Granted}
	to.Granted, to.Paid = granted, append(to.Paid, from.Paid...)
	return moved, errors.Join(
		keyusage.MoveUsage(tx, from.ID, to.ID),
		account.Merge(tx, from.ID, to.ID, granted),
		tx.Record(to.ID, "account.merge", to.ID, detail),
		account.NotifyTier(tx, before, to))
}
