package people

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/keys"
)

// AuditSearch selects entries of the audit log, newest first. Empty fields match all.
type AuditSearch struct {
	Account string // by its person, or about it, its keys and its requests
	Action  string // a prefix of the action
	Actor   string
	Since   time.Time // at or after
	Until   time.Time // before
	Before  int       // an entry ID; 0 starts at the newest
	Limit   int
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

// Accounts returns a page of the accounts, in order of creation, whose person has an email address
// with this part. An empty part matches all.
func (s *Store) Accounts(ctx context.Context, email string, page account.Page) (list api.AccountList, err error) {
	now := s.db.Now()
	query := `
		SELECT a.*, CASE WHEN p.closed_at IS NULL THEN COALESCE(p.email, '') ELSE '' END AS email, p.closed_at,
			COALESCE(u.calls, 0) AS used_today, (SELECT count(*) FROM api_keys k WHERE k.account_id = a.id AND ` + keys.Counted + `) AS keys
		FROM accounts a LEFT JOIN usage_days u ON u.account_id = a.id AND u.day = ?
			LEFT JOIN people p ON p.account_id = a.id
		WHERE a.id > ?`
	args := []any{database.Micros(now), counter.DayOf(now), page.After}
	if email != "" {
		query += ` AND p.closed_at IS NULL AND p.email LIKE ? ESCAPE '!'`
		part := strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(strings.ToLower(email))
		args = append(args, "%"+part+"%")
	}
	var rows []struct {
		Account   account.Account `gorm:"embedded"`
		Email     string
		ClosedAt  *time.Time `gorm:"serializer:column"`
		UsedToday int
		Keys      int
	}
	err = s.db.WithContext(ctx).Raw(query+" ORDER BY a.id LIMIT ?", append(args, page.Limit+1)...).Scan(&rows).Error
	if len(rows) > page.Limit {
		rows = rows[:page.Limit]
		list.Next = rows[page.Limit-1].Account.ID
	}
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i] = r.Account.ID
	}
	paid, paidErr := account.Paid(s.db.WithContext(ctx), ids...)
	list.Accounts = make([]api.ListedAccount, len(rows))
	for i, r := range rows {
		r.Account.Paid, r.Account.ClosedAt = paid[r.Account.ID], r.ClosedAt
		list.Accounts[i] = api.ListedAccount{
			Account: r.Account.Listed(now), Email: r.Email, UsedToday: r.UsedToday, Keys: r.Keys,
		}
	}
	return list, database.Outage(errors.Join(err, paidErr))
}

// latestEntries is the number of audit log entries in account details.
const latestEntries = 20

// Account returns the details of an account, except the limit of its tier. The person of a closed
// account has no address: closing replaces it.
func (s *Store) Account(ctx context.Context, id string) (details api.AccountDetail, err error) {
	db, now, ofKeys := s.db.WithContext(ctx), s.db.Now(), keys.NewStore(s.db)
	a, err := account.Read(db, id)
	if err == nil {
		details.Person, err = describePerson(db, id, now)
	}
	if err == nil {
		err = db.Raw("SELECT COALESCE(sum(calls), 0) FROM usage_days WHERE day = ? AND account_id = ?",
			counter.DayOf(now), id).Scan(&details.UsedToday).Error
	}
	if err != nil {
		return details, database.Outage(err)
	}
	if details.Person != nil {
		a.ClosedAt = details.Person.ClosedAt
	}
	details.Account = a.Listed(now)
	own, errKeys := ofKeys.OwnKeys(ctx, id)
	requests, errRequests := ofKeys.OwnRequests(ctx, id)
	open := slices.DeleteFunc(requests, func(r keys.Request) bool { return !r.State.Open() })
	details.Keys, details.Requests = keys.Listed(own, now), keys.ListedRequests(open)
	details.Audit, _, err = s.Audit(ctx, AuditSearch{Account: id, Limit: latestEntries})
	return details, errors.Join(errKeys, errRequests, err)
}

// describePerson returns the person of an account as operators see them, or nil.
func describePerson(db *gorm.DB, id string, now time.Time) (*api.AccountPerson, error) {
	var rows []struct {
		Row                       personRow `gorm:"embedded"`
		Codes, Passkeys, Sessions int
	}
	err := db.Raw(`SELECT p.*,
			(SELECT count(*) FROM recovery_codes c WHERE c.account_id = p.account_id AND used_at IS NULL) AS codes,
			(SELECT count(*) FROM passkeys k WHERE k.account_id = p.account_id) AS passkeys,
			(SELECT count(*) FROM sessions s WHERE s.account_id = p.account_id AND ended_at IS NULL
				AND expires_at > ? AND seen_at > ?) AS sessions
		FROM people p WHERE account_id = ?`,
		database.Micros(now), database.Micros(now.Add(-SessionIdle)), id).Scan(&rows).Error
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	r := rows[0]
	shown := &api.AccountPerson{
		Email: r.Row.Email, AuthenticatorConfirmed: r.Row.TOTPConfirmedAt != nil, RecoveryCodesLeft: r.Codes,
		Passkeys: r.Passkeys, ResetAt: r.Row.ResetAt, Sessions: r.Sessions,
		CreatedAt: r.Row.CreatedAt, ClosedAt: r.Row.ClosedAt,
	}
	if shown.ClosedAt != nil {
		shown.Email = ""
	}
	shown.Terms, err = account.LastTerms(db, id)
	return shown, err
}

// Event is an entry of the audit log as the account's person sees it.
type Event struct {
	At   time.Time
	What string
	More string // factor and location
	By   string // you, the operator, automatic or unknown
}

// actions maps the actions that people see to their text. Other actions are not shown.
var actions = map[string]string{
	"person.sign_up":              "Account created",
	"person.sign_in":              "Signed in",
	"person.password_change":      "Password changed",
	"person.password_reset_asked": "Password reset requested",
	"person.address_change_asked": "Email address change requested",
	"person.address_change":       "Email address changed",
	"person.address_change_off":   "Email address change cancelled",
	"factor.add":                  "Second factor added",
	"factor.remove":               "Second factor removed",
	"factor.reset_asked":          "Authenticator reported lost",
	"factor.reset_begin":          "Authenticator removal scheduled",
	"factor.reset_cancel":         "Authenticator removal cancelled",
	"recovery_code.use":           "Recovery code used",
	"recovery_code.renew":         "New recovery codes created",
	"session.end":                 "Signed out",
	"key.request":                 "Key requested",
	"key.withdraw":                "Key request withdrawn",
	"key.approve":                 "Key request approved",
	"key.decline":                 "Key request declined",
	"key.issue":                   "Key created",
	"key.import":                  "Older key added",
	"key.rename":                  "Key renamed",
	"key.rotate":                  "Key rotated",
	"key.revoke":                  "Key revoked",
	"terms.accept":                "Terms of use accepted",
	"account.merge":               "Older key connected",
	"account.suspend":             "Account suspended",
	"account.resume":              "Account resumed",
	"account.grant":               "Plan changed",
	"plan.upgrade":                "Checkout opened",
	"plan.portal":                 "Payment portal opened",
	"plan.cancel":                 "Plan cancellation requested",
	"plan.resume":                 "Plan resumption requested",
}

// failures maps actions that anyone can cause to their text. Each is shown in one row with the
// number of occurrences, to keep other events visible.
var failures = map[string]string{
	"person.sign_in_failed": "Failed to sign in",
	"person.confirm_failed": "Failed to confirm",
}

// failuresShown is the time for which failures are shown.
const failuresShown = 30 * 24 * time.Hour

// Events returns the newest events, at most limit and the failures, newest first: by the person, or
// about the account, its keys and its requests.
func (s *Store) Events(ctx context.Context, accountID string, limit int) ([]Event, error) {
	var rows []struct {
		Row   accountdb.AuditRow `gorm:"embedded"`
		Times int
	}
	db := s.db.WithContext(ctx)
	err := db.Model(&accountdb.AuditRow{}).Select("*, 1 AS times").Where(concerns(db, accountID)).
		Where("action IN ?", slices.Collect(maps.Keys(actions))).Order("id DESC").Limit(limit).Scan(&rows).Error
	failed := rows[:0:0]
	if err == nil {
		err = db.Raw(`SELECT a.*, f.times FROM audit_log a JOIN (
				SELECT max(id) AS id, count(*) AS times FROM audit_log WHERE actor = ? AND action IN ? AND at >= ? GROUP BY action
			) f ON f.id = a.id`, accountID, slices.Collect(maps.Keys(failures)),
			database.Micros(s.db.Now().Add(-failuresShown))).Scan(&failed).Error
	}
	rows = append(rows, failed...)
	events := make([]Event, len(rows))
	for i, r := range rows {
		events[i] = describe(r.Row, accountID, r.Times)
	}
	slices.SortStableFunc(events, func(a, b Event) int { return b.At.Compare(a.At) })
	return events, database.Outage(err)
}

func describe(r accountdb.AuditRow, accountID string, times int) Event {
	var detail map[string]any
	_ = json.Unmarshal([]byte(r.Detail), &detail) // invalid detail is omitted
	var more []string
	for _, name := range []string{"factor", "with", "name", "version", "agent", "network"} {
		if text, ok := detail[name].(string); ok && text != "" {
			more = append(more, text)
		}
	}
	e := Event{At: database.FromMicros(r.At), What: actions[r.Action], By: "the operator"}
	switch r.Actor {
	case accountID:
		e.By = "you"
	case keys.AutoApproval:
		e.By = "automatic"
	}
	if what, failed := failures[r.Action]; failed {
		e.What, e.By = what, "unknown" // without the secret, the person is unknown
		if times > 1 {
			more = append(more, strconv.Itoa(times)+" times in 30 days")
		}
	}
	e.More = strings.Join(more, ", ")
	return e
}

// Audit returns entries of the audit log, newest first. more reports whether older entries follow.
func (s *Store) Audit(ctx context.Context, search AuditSearch) (entries []api.AuditEntry, more bool, err error) {
	q := s.db.WithContext(ctx).Order("id DESC").Limit(search.Limit + 1)
	if search.Account != "" {
		q = q.Where(concerns(s.db.WithContext(ctx), search.Account))
	}
	if search.Action != "" {
		q = q.Where("substr(action, 1, ?) = ?", len(search.Action), search.Action)
	}
	if search.Actor != "" {
		q = q.Where("actor = ?", search.Actor)
	}
	if !search.Since.IsZero() {
		q = q.Where("at >= ?", database.Micros(search.Since))
	}
	if !search.Until.IsZero() {
		q = q.Where("at < ?", database.Micros(search.Until))
	}
	if search.Before > 0 {
		q = q.Where("id < ?", search.Before)
	}
	var rows []accountdb.AuditRow
	err = q.Find(&rows).Error
	if more = len(rows) > search.Limit; more {
		rows = rows[:search.Limit]
	}
	entries = make([]api.AuditEntry, len(rows))
	for i, r := range rows {
		entries[i] = api.AuditEntry{
			ID: r.ID, At: database.FromMicros(r.At), Actor: r.Actor, Action: r.Action, Subject: r.Subject,
			Detail: json.RawMessage(r.Detail),
		}
	}
	return entries, more, database.Outage(err)
}

// concerns selects entries about an account: by its person, or about the account, its keys and its
// requests.
func concerns(db *gorm.DB, id string) *gorm.DB {
	return db.Where("actor = ? OR subject = ?", id, id).
		Or("subject IN (SELECT id FROM api_keys WHERE account_id = ?)", id).
		Or("subject IN (SELECT id FROM key_requests WHERE account_id = ?)", id)
}
