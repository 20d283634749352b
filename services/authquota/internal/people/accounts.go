package people

import (
	"context"
	"errors"
	"strings"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/keys"
)

// AccountSearch selects accounts. Email is an address or part of one.
type AccountSearch struct {
	Email string
	account.Page
}

// AuditSearch selects entries of the audit log, newest first. Empty fields match all.
type AuditSearch struct {
	Account string // by its person, or about it, its keys and its requests
	Action  string // a prefix of the action
	Actor   string
	Since   time.Time // at or after
	Until   time.Time // before
	Before  int64     // an entry ID; 0 starts at the newest
	Limit   int
}

// AuditEntry is an entry of the audit log.
type AuditEntry struct {
	ID                             int64
	At                             time.Time
	Actor, Action, Subject, Detail string // Detail is JSON
}

// AccountDetails are the details of an account for operators.
type AccountDetails struct {
	account.Account

	Person    *Person // without an address once the account is closed; nil if there is none
	Sessions  int     // active ones
	Passkeys  int
	UsedToday int
	Keys      []keys.Key
	Requests  []keys.Request // open ones
	Audit     []AuditEntry
}

// ListedAccount is an account in the operators' list.
type ListedAccount struct {
	account.Account

	Email      string // of the person; empty if there is none
	UsedToday  int    // requests on the current UTC day, as of the ledger
	ActiveKeys int
}

// ChangeAccount applies change on behalf of actor and returns the changed account.
func (s *Store) ChangeAccount(ctx context.Context, actor, id string, change account.Change) (account.Account, error) {
	var changed account.Account
	err := s.db.Change(ctx, func(tx *accountdb.Tx) error {
		a, err := account.Lock(tx, id)
		if err != nil {
			return err
		}
		before := a.TierAt(tx.Now)
		detail := change.Apply(&a, tx.Now)
		changed = a
		if detail == nil {
			return tx.Remember(id) // the change before may not be in effect yet
		}
		if err := account.Save(tx, a); err != nil {
			return err
		}
		var notice error
		if change.Mail != "" {
			notice = tx.Notify(id, change.Mail, change.Data)
		}
		return errors.Join(notice, tx.Record(actor, change.Action, id, detail), account.NotifyTier(tx, before, a))
	})
	return changed, err
}

// Accounts returns a page of the accounts that match the search, in order of creation. more reports
// whether another page follows.
func (s *Store) Accounts(ctx context.Context, search AccountSearch) (listed []ListedAccount, more bool, err error) {
	query := `
		SELECT a.*, CASE WHEN p.closed_at IS NULL THEN COALESCE(p.email, '') ELSE '' END AS email, p.closed_at, COALESCE(u.calls, 0) AS used_today
		FROM accounts a LEFT JOIN usage_days u ON u.account_id = a.id AND u.day = ?
			LEFT JOIN people p ON p.account_id = a.id
		WHERE a.id > ?`
	args := []any{counter.DayOf(s.db.Now()), search.After}
	if search.Email != "" {
		query += ` AND p.closed_at IS NULL AND p.email LIKE ? ESCAPE '!'`
		part := strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(strings.ToLower(search.Email))
		args = append(args, "%"+part+"%")
	}
	var rows []struct {
		Row       account.Row `gorm:"embedded"`
		Email     string
		ClosedAt  *int64
		UsedToday int
	}
	err = s.db.WithContext(ctx).Raw(query+" ORDER BY a.id LIMIT ?", append(args, search.Limit+1)...).Scan(&rows).Error
	if more = len(rows) > search.Limit; more {
		rows = rows[:search.Limit]
	}
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i] = r.Row.ID
	}
	paid, paidErr := account.Paid(s.db.WithContext(ctx), ids...)
	active, activeErr := keys.NewStore(s.db).ActiveKeys(ctx, ids)
	listed = make([]ListedAccount, len(rows))
	for i, r := range rows {
		listed[i] = ListedAccount{Account: r.Row.Account(), Email: r.Email, UsedToday: r.UsedToday, ActiveKeys: active[r.Row.ID]}
		listed[i].Paid, listed[i].ClosedAt = paid[r.Row.ID], accountdb.Instant(r.ClosedAt)
	}
	return listed, more, database.Outage(errors.Join(err, paidErr, activeErr))
}

// latestEntries is the number of audit log entries in account details.
const latestEntries = 20

// Account returns the details of an account.
func (s *Store) Account(ctx context.Context, id string) (AccountDetails, error) {
	db := s.db.WithContext(ctx)
	var row account.Row
	err := db.Take(&row, "id = ?", id).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return AccountDetails{}, account.NotFound()
	}
	if err != nil {
		return AccountDetails{}, database.Outage(err)
	}
	a, err := row.WithPaid(db)
	if err != nil {
		return AccountDetails{}, database.Outage(err)
	}
	details := AccountDetails{Account: a}
	err = db.Raw("SELECT COALESCE(sum(calls), 0) FROM usage_days WHERE day = ? AND account_id = ?", counter.DayOf(s.db.Now()), id).
		Scan(&details.UsedToday).Error
	if err != nil {
		return details, database.Outage(err)
	}
	if err := s.describePerson(db, &details); err != nil {
		return details, err
	}
	if details.Keys, err = keys.NewStore(s.db).OwnKeys(ctx, id); err != nil {
		return details, err
	}
	if details.Requests, err = keys.NewStore(s.db).OpenRequests(ctx, id); err != nil {
		return details, err
	}
	details.Audit, _, err = s.Audit(ctx, AuditSearch{Account: id, Limit: latestEntries})
	return details, err
}

// describePerson adds the person of an account to its details. The person of a closed account has
// no address: closing replaces it.
func (s *Store) describePerson(db *gorm.DB, of *AccountDetails) error {
	now := s.db.Now().UTC()
	var rows []struct {
		Email                     string
		ConfirmedAt               *int64
		ResetAt, ClosedAt         *int64
		CreatedAt                 int64
		Codes, Passkeys, Sessions int
	}
	err := db.Raw(`SELECT email, totp_confirmed_at AS confirmed_at, reset_at, closed_at, created_at,
			(SELECT count(*) FROM recovery_codes c WHERE c.account_id = p.account_id AND used_at IS NULL) AS codes,
			(SELECT count(*) FROM passkeys k WHERE k.account_id = p.account_id) AS passkeys,
			(SELECT count(*) FROM sessions s WHERE s.account_id = p.account_id AND ended_at IS NULL AND expires_at > ? AND seen_at > ?) AS sessions
		FROM people p WHERE account_id = ?`, database.Micros(now), database.Micros(now.Add(-SessionIdle)), of.ID).Scan(&rows).Error
	if err != nil || len(rows) == 0 {
		return database.Outage(err)
	}
	p := rows[0]
	of.ClosedAt, of.Sessions, of.Passkeys = accountdb.Instant(p.ClosedAt), p.Sessions, p.Passkeys
	of.Person = &Person{
		Account: of.ID, AuthenticatorConfirmed: p.ConfirmedAt != nil, RecoveryCodesLeft: p.Codes, ResetAt: accountdb.Instant(p.ResetAt),
		Standing: of.Standing, Tier: of.TierAt(now), SuspendedAt: of.SuspendedAt, CreatedAt: database.FromMicros(p.CreatedAt),
	}
	if p.ClosedAt == nil {
		of.Person.Email = p.Email
	}
	of.Person.Terms, err = account.LastTerms(db, of.ID)
	return database.Outage(err)
}
