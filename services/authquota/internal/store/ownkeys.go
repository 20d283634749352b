package store

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/usage"
)

// lockHolder is lockAccount for a person who requests, collects or rotates a key. Sign-in has verified the authenticator; lockHolder
// checks again that there is one, because a key must never be issued without it.
func lockHolder(tx *gorm.DB, id string) (account.Account, error) {
	a, err := lockAccount(tx, id)
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
		return a, account.NoAuthenticator()
	case a.SuspendedAt != nil:
		return a, account.Suspended()
	}
	return a, nil
}

// RequestKey records a person's request for a key, and that the account accepts the terms of use. If atOnce, it approves the request.
func (s *Store) RequestKey(ctx context.Context, id string, wanted account.RequestedKey, terms account.Acceptance, atOnce bool) (account.Request, error) {
	var req account.Request
	err := s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		a, err := lockHolder(tx, id)
		if err != nil {
			return err
		}
		taken, err := keysInUse(tx, now, a.ID)
		if err != nil {
			return err
		}
		if taken >= account.MaxActive {
			return account.NoPlace()
		}
		if err := acceptTerms(tx, now, a.ID, terms); err != nil {
			return err
		}
		req = account.Request{
			ID: account.NewRequestID(), Account: a.ID, Name: wanted.Name, UseCase: wanted.UseCase, State: account.Asked, AskedAt: now,
		}
		row := requestRow{
			ID: req.ID, AccountID: req.Account, Name: req.Name, UseCase: req.UseCase, State: string(req.State),
			AskedAt: database.Micros(now),
		}
		err = errors.Join(tx.Create(&row).Error,
			record(tx, now, a.ID, "key.request", req.ID, map[string]any{"account": a.ID, "name": wanted.Name, "useCase": wanted.UseCase}))
		if err != nil || !atOnce {
			return err
		}
		if _, err := account.Approve().Apply(&req, "auto-approve", now); err != nil {
			return err
		}
		return s.decided(tx, now, req, false) // the next page shows it
	})
	return req, err
}

// OwnRequests returns the account's open requests and those declined within account.DeclinedShown, oldest first.
func (s *Store) OwnRequests(ctx context.Context, id string) ([]account.Request, error) {
	var rows []requestRow
	err := s.db.WithContext(ctx).Order("asked_at, id").Find(&rows, "account_id = ? AND (state IN ? OR state = ? AND decided_at > ?)",
		id, openStates, account.Declined, database.Micros(s.now().Add(-account.DeclinedShown))).Error
	return toRequests(rows), database.Outage(err)
}

// Withdraw ends an open request of the account. Withdrawing again changes nothing.
func (s *Store) Withdraw(ctx context.Context, id, request string) error {
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		row, err := lockRequest(tx, request)
		if err == nil && row.AccountID != id {
			err = account.RequestNotFound()
		}
		if err != nil || row.State == string(account.Withdrawn) {
			return err
		}
		if !row.toRequest().State.Open() {
			return account.NotOpen(account.RequestState(row.State))
		}
		return errors.Join(
			tx.Model(&requestRow{}).Where("id = ?", request).Update("state", account.Withdrawn).Error,
			record(tx, now, id, "key.withdraw", request, map[string]any{"account": id}),
		)
	})
}

// Collect creates the key of an approved request of the account, once, and records that the account accepts the terms of use.
func (s *Store) Collect(ctx context.Context, id, request string, terms account.Acceptance, stored account.KeyRecord) (account.Key, error) {
	var key account.Key
	err := s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		a, err := lockHolder(tx, id)
		if err != nil {
			return err
		}
		req, err := lockRequest(tx, request)
		if err == nil && req.AccountID != id {
			err = account.RequestNotFound()
		}
		if err != nil {
			return err
		}
		if req.State != string(account.Approved) {
			return account.NotOpen(account.RequestState(req.State))
		}
		if err := acceptTerms(tx, now, a.ID, terms); err != nil {
			return err
		}
		row := keyRow{
			ID: account.NewKeyID(), AccountID: a.ID, Digest: stored.Digest, Name: req.Name, Prefix: stored.Prefix, LastFour: stored.LastFour,
			UseCase: req.UseCase, CreatedAt: database.Micros(now), ExpiresAt: database.Micros(now.Add(account.MaxLife)),
		}
		key = keyOf(a, row)
		if err := tx.Create(&row).Error; err != nil {
			return err
		}
		return errors.Join(
			tx.Model(&requestRow{}).Where("id = ?", request).Updates(map[string]any{"state": account.Collected, "key_id": key.ID}).Error,
			record(tx, now, id, "key.issue", key.ID, map[string]any{
				"account": id, "tier": key.TierAt(now), "useCase": key.UseCase, "expiresAt": key.ExpiresAt, "request": request,
			}),
		)
	})
	return key, err
}

// takeOwn reads a key of the account and locks it until tx ends.
func lockOwnKey(tx *gorm.DB, id, key string) (keyRow, error) {
	var row keyRow
	err := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Take(&row, "id = ? AND account_id = ?", key, id).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		err = account.KeyNotFound()
	}
	return row, err
}

// OwnKeys returns all keys of the account, oldest first.
func (s *Store) OwnKeys(ctx context.Context, id string) ([]account.Key, error) {
	keys, _, err := s.Keys(ctx, id, account.Page{})
	return keys, err
}

// OwnKey returns a key of the account.
func (s *Store) OwnKey(ctx context.Context, id, key string) (account.Key, error) {
	row, err := findKey(s.db.WithContext(ctx), "WHERE k.id = ? AND k.account_id = ?", key, id)
	return row.toKey(), database.Outage(err)
}

// Rename sets the name, which must be valid, of a key of the account.
func (s *Store) Rename(ctx context.Context, id, key, name string) error {
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		row, err := lockOwnKey(tx, id, key)
		if err != nil || row.Name == name {
			return err
		}
		return errors.Join(tx.Model(&keyRow{}).Where("id = ?", key).Update("name", name).Error,
			record(tx, now, id, "key.rename", key, map[string]any{"account": id, "from": row.Name, "to": name}))
	})
}

// RevokeOwn revokes a key of the account on behalf of its person.
func (s *Store) RevokeOwn(ctx context.Context, id, key string) (account.Key, error) {
	var revoked account.Key
	err := s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		if _, err := lockOwnKey(tx, id, key); err != nil {
			return err
		}
		var err error
		revoked, err = s.revoke(tx, now, id, key, false)
		return err
	})
	return revoked, err
}

// Rotate issues a successor with a full life of its own for an active key of the account. The key itself ends after account.Grace,
// or earlier if it expires first. A key can be rotated once, and not while its own predecessor is in its grace period.
func (s *Store) Rotate(ctx context.Context, id, key string, stored account.KeyRecord) (successor, old account.Key, err error) {
	err = s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		a, err := lockHolder(tx, id)
		if err != nil {
			return err
		}
		row, err := lockOwnKey(tx, id, key)
		if err != nil {
			return err
		}
		old = keyOf(a, row)
		if !old.Counts(now) {
			return account.NotRotatable()
		}
		var before int64 // otherwise an account could have any number of keys, all but one in their grace periods
		err = tx.Model(&keyRow{}).Where("successor_id = ? AND revoked_at IS NULL AND expires_at > ?", key, database.Micros(now)).Count(&before).Error
		if err != nil {
			return err
		}
		if before > 0 {
			return account.InGrace()
		}
		next := row
		next.ID, next.Digest, next.Prefix, next.LastFour = account.NewKeyID(), stored.Digest, stored.Prefix, stored.LastFour
		next.CreatedAt, next.ExpiresAt, next.LastUsedAt = database.Micros(now), database.Micros(old.SuccessorEnd(now)), nil
		successor = keyOf(a, next)
		old.ReplacedAt, old.ExpiresAt, old.Successor = &now, old.GraceEnd(now), successor.ID
		if err := tx.Create(&next).Error; err != nil {
			return err
		}
		return errors.Join(
			tx.Model(&keyRow{}).Where("id = ?", key).Updates(map[string]any{
				"expires_at": database.Micros(old.ExpiresAt), "replaced_at": database.Micros(now), "successor_id": successor.ID,
			}).Error,
			record(tx, now, id, "key.rotate", key, map[string]any{
				"account": id, "successor": successor.ID, "endsAt": old.ExpiresAt, "successorEndsAt": successor.ExpiresAt,
			}),
			queueRaise(tx, id),
			s.notify(tx, now, id, "key-rotated", map[string]string{
				"name": old.Title(), "key": old.Shown(), "when": account.When(old.ExpiresAt), "until": account.When(successor.ExpiresAt),
			}),
		)
	})
	return successor, old, err
}

// SentOn returns the requests that were sent with each key of the account on a UTC day. Keys without requests are left out.
func (s *Store) SentOn(ctx context.Context, id string, day time.Time) (map[string]usage.Figures, error) {
	var rows []keyUsageRow
	err := s.db.WithContext(ctx).Find(&rows, "account_id = ? AND day = ?", id, counter.DayOf(day)).Error
	sent := make(map[string]usage.Figures, len(rows))
	for _, r := range rows {
		of := sent[r.KeyID]
		of[usage.GroupOf(api.CallOutcome(r.Outcome))] += r.Calls
		sent[r.KeyID] = of
	}
	return sent, database.Outage(err)
}
