package people

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/accountdb"
)

// Stage is the progress of signing in.
type Stage string

const (
	Halfway Stage = "password" // the password is proven, the second factor is not
	Full    Stage = "full"
)

// Idle timeout and maximum lifetimes.
const (
	SessionIdle = 30 * time.Minute
	SessionLife = 12 * time.Hour
	HalfwayLife = 10 * time.Minute
	SetUpLife   = 30 * time.Minute // halfway, before the authenticator is set up: the person may have to install an app
)

// RecentProof is the time for which sensitive actions are allowed after proving a factor.
const RecentProof = 10 * time.Minute

// SecretOverlap is the time for which the previous secret of a session stays valid, so that a form
// submitted twice or from another tab belongs to the same session.
const SecretOverlap = 10 * time.Second

// TouchEvery is the precision of SeenAt.
const TouchEvery = time.Minute

// Session is the session of one browser.
type Session struct {
	ID              string `gorm:"primaryKey"`
	Account         string `gorm:"column:account_id"`
	Stage           Stage
	CreatedAt       time.Time  `gorm:"serializer:column"`
	SeenAt          time.Time  `gorm:"serializer:column"` // to within TouchEvery
	AuthenticatedAt time.Time  `gorm:"serializer:column"` // last proof of a factor
	ExpiresAt       time.Time  `gorm:"serializer:column"` // regardless of activity
	EndedAt         *time.Time `gorm:"serializer:column"`
	Superseded      bool       `gorm:"-"` // the browser presented the previous secret
	Client          Client     `gorm:"embedded"`
}

// Client describes a browser.
type Client struct {
	Agent   string // such as "Firefox on Linux"
	Network string // part of its address, such as 203.0.113.0/24
}

// Alive reports whether the session is valid at now.
func (s Session) Alive(now time.Time) bool {
	return s.EndedAt == nil && now.Before(s.ExpiresAt) && now.Before(s.SeenAt.Add(SessionIdle))
}

// Recent reports whether a factor was proven recently enough for sensitive actions.
func (s Session) Recent(now time.Time) bool {
	return !s.Superseded && now.Before(s.AuthenticatedAt.Add(RecentProof)) // the factor was proven with the new secret
}

// Stale reports whether SeenAt must be updated.
func (s Session) Stale(now time.Time) bool { return !now.Before(s.SeenAt.Add(TouchEvery)) }

// NewSecret returns 256 random bits as text for cookies and URLs.
func NewSecret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// HashSecret returns the stored form of a Secret.
func HashSecret(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// Entry is a browser that has passed a step of signing in.
type Entry struct {
	Before string // secret of the session that this one replaces; empty if none
	Device string // secret of a known browser; empty if new
	Client Client
}

// Admitted holds the new secrets of a browser.
type Admitted struct {
	Session string
	Device  string
}

// ClientOf describes a browser by its User-Agent header and address. Neither is stored in full; a
// person recognizes a device by less.
func ClientOf(userAgent, address string) Client {
	return Client{Agent: agentOf(userAgent), Network: NetworkOf(address)}
}

// The order matters: browsers also name the browsers they are compatible with.
var (
	browsers = [][2]string{
		{"Edg", "Edge"}, {"OPR/", "Opera"}, {"SamsungBrowser/", "Samsung Internet"}, {"Firefox/", "Firefox"},
		{"FxiOS/", "Firefox"},
		{"CriOS/", "Chrome"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"}, {"curl/", "curl"},
	}
	systems = [][2]string{
		{"Android", "Android"}, {"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Windows", "Windows"}, {"Mac OS X", "macOS"},
		{"CrOS", "ChromeOS"},
		{"Linux", "Linux"},
	}
)

func agentOf(userAgent string) string {
	name, on := "Unknown browser", ""
	for _, b := range browsers {
		if strings.Contains(userAgent, b[0]) {
			name = b[1]
			break
		}
	}
	for _, s := range systems {
		if strings.Contains(userAgent, s[0]) {
			on = " on " + s[1]
			break
		}
	}
	return name + on
}

type sessionRow struct {
	Session `gorm:"embedded"`

	TokenHash string
	PrevHash  *string // of the previous secret, until SecretOverlap is over
	NewSeed   string
	NewSeedAt *int64
}

func (sessionRow) TableName() string { return "sessions" }

// end ends the active sessions that where selects and returns their number.
func end(tx *accountdb.Tx, where string, args ...any) (int, error) {
	var accounts []string
	err := tx.Raw(
		"UPDATE sessions SET ended_at = ?, new_seed = '' WHERE ended_at IS NULL AND ("+where+") RETURNING account_id",
		append([]any{database.Micros(tx.Now)}, args...)...).Scan(&accounts).Error
	return len(accounts), errors.Join(err, tx.Remember(accounts...))
}

// Session returns the active session with this secret and its person, and updates its last use;
// not_found if there is none.
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
	current := row.Session
	current.Superseded = row.TokenHash != hash
	if !current.Alive(now) {
		return Session{}, Person{}, none
	}
	person, err := s.Person(ctx, current.Account)
	if err == nil && current.Stale(now) {
		err = database.Outage(s.db.WithContext(ctx).Table("sessions").
			Where("id = ? AND ended_at IS NULL AND seen_at < ?", current.ID, database.Micros(now)).
			Update("seen_at", database.Micros(now)).Error)
	}
	return current, person, err
}

// EndSession ends a session of an account on behalf of its person; not_found if it has no active
// session with this ID.
func (s *Store) EndSession(ctx context.Context, accountID, id string) error {
	return s.db.Change(ctx, func(tx *accountdb.Tx) error {
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

func startSession(tx *accountdb.Tx, accountID string, stage Stage, life time.Duration, entry Entry) (Admitted, error) {
	if entry.Before != "" {
		if _, err := end(tx, "token_hash = ?", HashSecret(entry.Before)); err != nil {
			return Admitted{}, err
		}
	}
	secret := NewSecret()
	row := sessionRow{TokenHash: HashSecret(secret), Session: Session{
		ID: accountdb.NewID("ses_"), Account: accountID, Stage: stage, CreatedAt: tx.Now, SeenAt: tx.Now,
		AuthenticatedAt: tx.Now, ExpiresAt: tx.Now.Add(life), Client: entry.Client,
	}}
	return Admitted{Session: secret, Device: entry.Device}, tx.Create(&row).Error
}

type deviceRow struct {
	AccountID string `gorm:"primaryKey"`
	TokenHash string `gorm:"primaryKey"`
	SeenAt    int64
}

func (deviceRow) TableName() string { return "devices" }

// KnownDevice reports whether the browser with this secret's hash has signed in to the account
// before.
func (s *Store) KnownDevice(ctx context.Context, accountID, hash string) (bool, error) {
	var n int64
	err := s.db.WithContext(ctx).Model(&deviceRow{}).
		Where("account_id = ? AND token_hash = ?", accountID, hash).Count(&n).Error
	return n > 0, database.Outage(err)
}

// rememberDevice returns the secret of a browser and whether it has signed in to the account
// before. A new browser gets a new secret.
func rememberDevice(tx *accountdb.Tx, accountID, secret string) (string, bool, error) {
	if secret == "" {
		secret = NewSecret()
	}
	row := deviceRow{accountID, HashSecret(secret), database.Micros(tx.Now)}
	update := tx.Model(&deviceRow{}).Where("account_id = ? AND token_hash = ?", row.AccountID, row.TokenHash).
		Update("seen_at", row.SeenAt)
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
		if r.Alive(now) {
			living = append(living, r.Session)
		}
	}
	return living, database.Outage(err)
}

// EndSessions ends all sessions of an account on behalf of its person, and cancels a pending
// address change.
func (s *Store) EndSessions(ctx context.Context, accountID string) error {
	return s.db.Change(ctx, func(tx *accountdb.Tx) error {
		n, err := end(tx, "account_id = ?", accountID)
		if err != nil || n == 0 {
			return err
		}
		return errors.Join(
			endAddressChange(tx, accountID),
			tx.Record(accountID, "session.end", accountID, map[string]any{"all": n}))
	})
}

// rotateSecret gives a full session a new secret after its person proved a factor. The old secret
// stays valid during SecretOverlap, but without the proof, so a stolen one gains nothing.
func rotateSecret(tx *accountdb.Tx, current Session) (secret string, err error) {
	secret = NewSecret()
	if err := tx.Remember(current.Account); err != nil {
		return "", err
	}
	return secret, accountdb.Changed(tx.Table("sessions").
		Where("id = ? AND account_id = ? AND stage = ? AND ended_at IS NULL", current.ID, current.Account, string(Full)).
		Updates(map[string]any{
			"token_hash": HashSecret(secret), "prev_hash": gorm.Expr("token_hash"), "authenticated_at": database.Micros(tx.Now),
		}), problem.New(problem.NotFound, "This session has ended. Sign in again."))
}

// endOtherSessions ends all sessions of an account but one, and gives that one a new secret. The
// old secret stops working immediately.
func endOtherSessions(tx *accountdb.Tx, current Session) (secret string, err error) {
	if _, err := end(tx, "account_id = ? AND id <> ?", current.Account, current.ID); err != nil {
		return "", err
	}
	secret, err = rotateSecret(tx, current)
	return secret, errors.Join(err, tx.Table("sessions").Where("id = ?", current.ID).Update("prev_hash", nil).Error)
}
