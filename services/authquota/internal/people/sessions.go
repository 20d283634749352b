package people

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/dbtx"
)

type sessionRow struct {
	ID              string `gorm:"primaryKey"`
	TokenHash       string
	PrevHash        *string // of the previous secret, until session.Overlap is over
	AccountID       string
	Stage           string
	CreatedAt       int64 `gorm:"autoCreateTime:false"`
	SeenAt          int64
	AuthenticatedAt int64
	ExpiresAt       int64
	Agent           string
	Network         string
	NewSeed         string
	NewSeedAt       *int64
	EndedAt         *int64
}

func (sessionRow) TableName() string { return "sessions" }

func (r sessionRow) toSession() Session {
	return Session{
		ID: r.ID, Account: r.AccountID, Stage: Stage(r.Stage),
		CreatedAt: database.FromMicros(r.CreatedAt), SeenAt: database.FromMicros(r.SeenAt),
		AuthenticatedAt: database.FromMicros(r.AuthenticatedAt), ExpiresAt: database.FromMicros(r.ExpiresAt), EndedAt: dbtx.Instant(r.EndedAt),
		Client: Client{Agent: r.Agent, Network: r.Network},
	}
}

// begin stores a new session under the hash of its secret.
func begin(tx *dbtx.Tx, s Session, secret string) error {
	return tx.Create(&sessionRow{
		ID: s.ID, TokenHash: HashSecret(secret), AccountID: s.Account, Stage: string(s.Stage),
		CreatedAt: database.Micros(s.CreatedAt), SeenAt: database.Micros(s.SeenAt),
		AuthenticatedAt: database.Micros(s.AuthenticatedAt), ExpiresAt: database.Micros(s.ExpiresAt),
		Agent: s.Client.Agent, Network: s.Client.Network,
	}).Error
}

// end ends the active sessions that where selects and returns their number.
func end(tx *dbtx.Tx, where string, args ...any) (int, error) {
	var ended []sessionRow
	err := tx.Model(&ended).Clauses(clause.Returning{Columns: []clause.Column{{Name: "id"}}}).Where("ended_at IS NULL").Where(where, args...).
		Updates(map[string]any{"ended_at": database.Micros(tx.Now), "new_seed": ""}).Error
	ids := make([]string, len(ended))
	for i, s := range ended {
		ids[i] = s.ID
	}
	tx.Changed("sessions", "id", ids, "ended_at", "new_seed")
	return len(ended), err
}

// Session returns the active session with this secret and its person, and updates its last use; not_found if there is none.
func (s *Store) Session(ctx context.Context, secret string) (Session, Person, error) {
	now := s.db.Now().UTC()
	none := problem.New(problem.NotFound, "This session does not exist.")
	var row sessionRow
	hash := HashSecret(secret)
	err := s.db.WithContext(ctx).Take(&row, "token_hash = ? OR prev_hash = ? AND authenticated_at > ?",
		hash, hash, database.Micros(now.Add(-SecretOverlap))).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return Session{}, Person{}, none
	}
	if err != nil {
		return Session{}, Person{}, database.Outage(err)
	}
	current := row.toSession()
	current.Superseded = row.TokenHash != hash
	if !current.Alive(now) {
		return Session{}, Person{}, none
	}
	person, err := s.Person(ctx, current.Account)
	if err == nil && current.Stale(now) {
		err = database.Outage(s.db.WithContext(ctx).Model(&sessionRow{}).
			Where("id = ? AND ended_at IS NULL AND seen_at < ?", current.ID, database.Micros(now)).
			Update("seen_at", database.Micros(now)).Error)
	}
	return current, person, err
}

// EndSession ends a session of an account on behalf of its person; not_found if it has no active session with this ID.
func (s *Store) EndSession(ctx context.Context, accountID, id string) error {
	return s.db.Change(ctx, func(tx *dbtx.Tx) error {
		n, err := end(tx, "account_id = ? AND id = ?", accountID, id)
		if err == nil && n == 0 {
			err = problem.New(problem.NotFound, "This session does not exist or has already ended.")
		}
		if err != nil {
			return err
		}
		return tx.Record(accountID, "session.end", id, map[string]any{})
	})
}

// startSession starts a session at a stage and ends the browser's previous one.
func startSession(tx *dbtx.Tx, accountID string, stage Stage, life time.Duration, entry Entry) (Admitted, error) {
	if entry.Before != "" {
		if _, err := end(tx, "token_hash = ?", HashSecret(entry.Before)); err != nil {
			return Admitted{}, err
		}
	}
	begun, secret := NewSession(accountID, stage, life, entry.Client, tx.Now)
	return Admitted{Session: secret, Device: entry.Device}, begin(tx, begun, secret)
}

type deviceRow struct {
	AccountID string `gorm:"primaryKey"`
	TokenHash string `gorm:"primaryKey"`
	SeenAt    int64
}

func (deviceRow) TableName() string { return "devices" }

// KnownDevice reports whether the browser with this secret's hash has signed in to the account before.
func (s *Store) KnownDevice(ctx context.Context, accountID, hash string) (bool, error) {
	var n int64
	err := s.db.WithContext(ctx).Model(&deviceRow{}).Where("account_id = ? AND token_hash = ?", accountID, hash).Count(&n).Error
	return n > 0, database.Outage(err)
}

// rememberDevice returns the secret of a browser and whether it has signed in to the account before. A new browser gets a new
// secret.
func rememberDevice(tx *dbtx.Tx, accountID, secret string) (string, bool, error) {
	if secret == "" {
		secret = NewSecret()
	}
	row := deviceRow{accountID, HashSecret(secret), database.Micros(tx.Now)}
	update := tx.Model(&deviceRow{}).Where("account_id = ? AND token_hash = ?", row.AccountID, row.TokenHash).Update("seen_at", row.SeenAt)
	if update.Error != nil || update.RowsAffected > 0 {
		return secret, true, update.Error
	}
	return secret, false, tx.Create(&row).Error
}

// OpenSessions returns the active sessions of an account, most recently used first.
func (s *Store) OpenSessions(ctx context.Context, accountID string) ([]Session, error) {
	now := s.db.Now()
	var rows []sessionRow
	err := s.db.WithContext(ctx).Order("seen_at DESC, id DESC").
		Find(&rows, "account_id = ? AND ended_at IS NULL AND expires_at > ?", accountID, database.Micros(now)).Error
	var living []Session
	for _, r := range rows {
		if current := r.toSession(); current.Alive(now) {
			living = append(living, current)
		}
	}
	return living, database.Outage(err)
}

// EndSessions ends all sessions of an account on behalf of its person, and cancels a pending address change.
func (s *Store) EndSessions(ctx context.Context, accountID string) error {
	return s.db.Change(ctx, func(tx *dbtx.Tx) error {
		n, err := end(tx, "account_id = ?", accountID)
		if err != nil || n == 0 {
			return err
		}
		return errors.Join(
			endAddressChange(tx, accountID),
			tx.Record(accountID, "session.end", accountID, map[string]any{"all": n}))
	})
}

// rotateSecret gives a full session a new secret after its person proved a factor. The old secret stays valid during
// session.Overlap, but without the proof, so a stolen one gains nothing.
func rotateSecret(tx *dbtx.Tx, current Session) (secret string, err error) {
	secret = NewSecret()
	tx.Changed("sessions", "id", dbtx.One(current.ID), "token_hash", "prev_hash", "authenticated_at")
	update := tx.Model(&sessionRow{}).
		Where("id = ? AND account_id = ? AND stage = ? AND ended_at IS NULL", current.ID, current.Account, string(Full)).
		Updates(map[string]any{"token_hash": HashSecret(secret), "prev_hash": gorm.Expr("token_hash"), "authenticated_at": database.Micros(tx.Now)})
	if update.Error == nil && update.RowsAffected == 0 {
		return "", problem.New(problem.NotFound, "This session has ended. Sign in again.")
	}
	return secret, update.Error
}

// endOtherSessions ends all sessions of an account but one, and gives that one a new secret. The old secret stops working
// immediately.
func endOtherSessions(tx *dbtx.Tx, current Session) (secret string, err error) {
	if _, err := end(tx, "account_id = ? AND id <> ?", current.Account, current.ID); err != nil {
		return "", err
	}
	secret, err = rotateSecret(tx, current)
	return secret, errors.Join(err, tx.Model(&sessionRow{}).Where("id = ?", current.ID).Update("prev_hash", nil).Error)
}
