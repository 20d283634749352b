package people

import (
	"context"
	"errors"

	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/credential"
)

// Passkeys returns the passkeys of an account, oldest first.
func (s *Store) Passkeys(ctx context.Context, accountID string) (all []credential.Passkey, err error) {
	err = s.db.WithContext(ctx).Order("added_at, id").Find(&all, "account_id = ?", accountID).Error
	return all, database.Outage(err)
}

// AddPasskey stores a new passkey. It returns an error if the account has the maximum number or the
// passkey is registered already.
func (s *Store) AddPasskey(ctx context.Context, p credential.Passkey) error {
	return s.db.Change(ctx, func(tx *accountdb.Tx) error {
		if _, err := lockPerson(tx, p.Account); err != nil {
			return err
		}
		var has, known int64
		if err := tx.Table("passkeys").Where("account_id = ?", p.Account).Count(&has).Error; err != nil {
			return err
		}
		if has >= credential.MaxPasskeys {
			return credential.ErrTooManyPasskeys
		}
		if err := tx.Table("passkeys").Where("credential = ?", p.Credential).Count(&known).Error; err != nil {
			return err
		}
		if known > 0 {
			return credential.ErrPasskeyRejected
		}
		p.ID = accountdb.NewID("pky_")
		if err := errors.Join(tx.Create(&p).Error, tx.Remember(p.Account),
			tx.Record(p.Account, "factor.add", p.ID, map[string]any{"factor": "passkey", "name": p.Name})); err != nil {
			return err
		}
		return tx.Notify(p.Account, "factor-changed", map[string]string{"what": "the passkey “" + p.Name + "” was added"})
	})
}

// RemovePasskey deletes a passkey of an account. It returns not_found for an unknown ID.
func (s *Store) RemovePasskey(ctx context.Context, accountID, id string) error {
	return s.db.Change(ctx, func(tx *accountdb.Tx) error {
		if err := tx.Remember(accountID); err != nil {
			return err
		}
		var rows []credential.Passkey
		err := tx.Clauses(clause.Returning{}).Where("account_id = ? AND id = ?", accountID, id).Delete(&rows).Error
		if err == nil && len(rows) == 0 {
			err = problem.New(problem.NotFound, "This passkey does not exist or was already removed.")
		}
		if err != nil {
			return err
		}
		if err := tx.Record(accountID, "factor.remove", id,
			map[string]any{"factor": "passkey", "name": rows[0].Name}); err != nil {
			return err
		}
		return tx.Notify(accountID, "factor-changed", map[string]string{
			"what": "the passkey “" + rows[0].Name + "” was removed",
		})
	})
}

// usePasskey stores the new state of a verified passkey. It rejects a passkey that was removed, and
// one whose counter did not increase, because the counter value was used before.
func usePasskey(tx *accountdb.Tx, p credential.Passkey) error {
	if err := tx.Remember(p.Account); err != nil {
		return err
	}
	return accountdb.Changed(
		tx.Where("account_id = ? AND (count < ? OR (count = 0 AND ? = 0))", p.Account, p.Count, p.Count).
			Select("Record", "Count", "UsedAt").Updates(&p), credential.ErrPasskeyRejected)
}

type challengeRow struct {
	SessionID string `gorm:"primaryKey"`
	Purpose   string `gorm:"primaryKey"`
	Kept      string
	ExpiresAt int64
}

func (challengeRow) TableName() string { return "passkey_challenges" }

// SaveChallenge stores the challenge of a session for a purpose. It replaces an earlier one.
func (s *Store) SaveChallenge(ctx context.Context, sessionID, purpose, challenge string) error {
	row := challengeRow{sessionID, purpose, challenge, database.Micros(s.db.Now().Add(credential.ChallengeLife))}
	return database.Outage(s.db.WithContext(ctx).Clauses(clause.OnConflict{
		Columns:   []clause.Column{{Name: "session_id"}, {Name: "purpose"}},
		DoUpdates: clause.AssignmentColumns([]string{"kept", "expires_at"}),
	}).Create(&row).Error)
}

// TakeChallenge deletes and returns the challenge of a session; not_found if there is none or it
// has expired. Only one of several concurrent callers gets it.
func (s *Store) TakeChallenge(ctx context.Context, sessionID, purpose string) (string, error) {
	var rows []challengeRow
	err := s.db.WithContext(ctx).Clauses(clause.Returning{}).
		Where("session_id = ? AND purpose = ?", sessionID, purpose).Delete(&rows).Error
	if err != nil {
		return "", database.Outage(err)
	}
	if len(rows) == 0 || rows[0].ExpiresAt <= database.Micros(s.db.Now()) {
		return "", problem.New(problem.NotFound, "The passkey request has expired. Try again.")
	}
	return rows[0].Kept, nil
}
