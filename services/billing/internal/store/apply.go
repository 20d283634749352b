package store

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/billing/internal/intake"
	"opportunity.internal/services/billing/internal/subscription"
)

var (
	errNoTickets = errors.New("table tickets has no row 1")
	errMoved     = errors.New("the subscription went to another account meanwhile")
)

type subscriptionRow struct {
	ID        string `gorm:"primaryKey"`
	Account   string
	Customer  string
	State     string
	Asked     int64
	ChangedAt int64
}

func (subscriptionRow) TableName() string { return "subscriptions" }

// state has the account that the row counts for, whatever the text of the state names.
func (r subscriptionRow) state() (s subscription.State, err error) {
	err = json.Unmarshal([]byte(r.State), &s)
	s.Account, s.Customer = r.Account, r.Customer
	return s, err
}

// Take keeps what was fetched and all that follows from it, in one transaction. The rows of the accounts that it is about are locked
// before anything is read of them: of two changes of one account the second reckons with the first.
func (s *Store) Take(ctx context.Context, f intake.Fetched) (change intake.Change, err error) {
	err = s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		change = intake.Change{}
		if f.Cause.Event != "" {
			ours, err := claim(tx, f.Cause.Event, now)
			if err != nil {
				return err
			}
			if !ours {
				change.Repeated = true
				return nil
			}
		}
		if f.State == nil {
			return nil
		}
		return take(tx, now, f, &change)
	})
	return change, err
}

// claim reports whether the event is claimed by tx. It waits for whoever claims the same one, and is free again where they fail.
func claim(tx *gorm.DB, event string, now time.Time) (ours bool, err error) {
	done := tx.Exec("INSERT INTO events (id, received_at) VALUES (?, ?) ON CONFLICT (id) DO NOTHING", event, database.Micros(now))
	return done.RowsAffected == 1, done.Error
}

func take(tx *gorm.DB, now time.Time, f intake.Fetched, change *intake.Change) error {
	state := *f.State
	before, err := kept(tx, state.ID)
	if err != nil {
		return err
	}
	if state.Account == "" {
		if state.Account, err = accountOf(tx, state.Customer); err != nil {
			return err
		}
	}
	if state.Account == "" && before != nil { // whose customer was deleted
		state.Account = before.Account
	}
	if state.Account == "" {
		return nil // nobody's
	}
	change.Account = state.Account
	accounts := []string{state.Account}
	if before != nil && before.Account != state.Account { // somebody gave it to another account
		accounts = append(accounts, before.Account)
		slices.Sort(accounts) // all lock in one order, or two could wait for each other
	}
	for _, account := range accounts {
		if err := lock(tx, account, now); err != nil {
			return err
		}
	}
	row, err := kept(tx, state.ID)
	switch {
	case err != nil:
		return err
	case row != nil && !slices.Contains(accounts, row.Account):
		return problem.Unavailable(errMoved)
	case row != nil:
		had, err := row.state()
		if err != nil {
			return err
		}
		change.Had, change.Older = &had, row.Asked >= f.Ticket
	}
	if f.Cause.Action != "" {
		if err := record(tx, now, f.Cause.Actor, f.Cause.Action, state.ID, map[string]any{"account": state.Account}); err != nil {
			return err
		}
	}
	if change.Older {
		change.Has = change.Had
		return nil
	}
	change.Has = &state
	if err := keep(tx, now, f, state, change.Had); err != nil {
		return err
	}
	for _, account := range accounts {
		if err := reckon(tx, now, f.Cause, account); err != nil {
			return err
		}
	}
	return nil
}

// kept is the row of a subscription; nil: there is none.
func kept(tx *gorm.DB, id string) (*subscriptionRow, error) {
	var rows []subscriptionRow
	if err := tx.Where("id = ?", id).Limit(1).Find(&rows).Error; err != nil || len(rows) == 0 {
		return nil, err
	}
	return &rows[0], nil
}

func accountOf(tx *gorm.DB, customer string) (string, error) {
	var account string
	err := tx.Raw("SELECT account FROM customers WHERE customer = ?", customer).Scan(&account).Error
	return account, err
}

// keep writes a state with its ticket, which grows also where the state is the same.
func keep(tx *gorm.DB, now time.Time, f intake.Fetched, state subscription.State, had *subscription.State) error {
	encoded, err := json.Marshal(state)
	if err != nil {
		return err
	}
	if had != nil && subscription.Same(*had, state) {
		return tx.Exec("UPDATE subscriptions SET asked = ? WHERE id = ?", f.Ticket, state.ID).Error
	}
	err = tx.Exec(`INSERT INTO subscriptions (id, account, customer, state, asked, changed_at) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET account = excluded.account, customer = excluded.customer, state = excluded.state,
			asked = excluded.asked, changed_at = excluded.changed_at`,
		state.ID, state.Account, state.Customer, string(encoded), f.Ticket, database.Micros(now)).Error
	if err != nil {
		return err
	}
	// One that an operator made at the processor brings its customer with it: the account has a portal then, and is compared.
	err = tx.Exec("INSERT INTO customers (account, customer, created_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
		state.Account, state.Customer, database.Micros(now)).Error
	if err != nil {
		return err
	}
	if over(state) && (had == nil || !over(*had)) { // the next wish to buy is another one
		if err := tx.Exec("DELETE FROM checkouts WHERE account = ?", state.Account).Error; err != nil {
			return err
		}
	}
	return record(tx, now, f.Cause.Actor, "subscription.change", state.ID, detail(f.Cause, map[string]any{"account": state.Account, "state": state}))
}

// over reports whether the wish to buy that made a subscription is: it was bought, or its payment never came and never will.
func over(s subscription.State) bool { return s.Paid != nil || s.Ended }

// detail is what an entry of the audit log tells beside who did what: the event, where one was the cause.
func detail(why intake.Cause, of map[string]any) map[string]any {
	if why.Event != "" {
		of["event"] = why.Event
	}
	return of
}

// Claimed reports whether an event was dealt with.
func (s *Store) Claimed(ctx context.Context, event string) (bool, error) {
	var n int64
	err := s.db.WithContext(ctx).Raw("SELECT count(*) FROM events WHERE id = ?", event).Scan(&n).Error
	return n > 0, database.Outage(err)
}

// eventLife is for how long claims are kept; no processor sends an event again after that.
const eventLife = 60 * 24 * time.Hour

// Forget removes what is of no use any more.
func (s *Store) Forget(ctx context.Context) error {
	return database.Outage(s.db.WithContext(ctx).
		Exec("DELETE FROM events WHERE received_at < ?", database.Micros(s.now().Add(-eventLife))).Error)
}
