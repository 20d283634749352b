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
	"opportunity.internal/services/billing/internal/subscription"
)

var errAccountChanged = errors.New("subscription moved to another account concurrently")

type subscriptionRow struct {
	ID        string `gorm:"primaryKey"`
	Account   string
	Customer  string
	State     string
	Asked     int64
	ChangedAt int64
}

func (subscriptionRow) TableName() string { return "subscriptions" }

// state decodes the row. Its account and customer come from their columns, not from the JSON.
func (r subscriptionRow) state() (s subscription.State, err error) {
	err = json.Unmarshal([]byte(r.State), &s)
	s.Account, s.Customer = r.Account, r.Customer
	return s, err
}

// Apply stores a state of the processor, which was read after ticket was taken, and everything
// derived from it in one transaction. It locks the accounts involved before it reads the stored
// state, so a second concurrent change to an account sees the first.
func (s *Store) Apply(ctx context.Context, ticket int64, cause Cause, state subscription.State) (change Change,
	err error) {
	err = s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		change, err = apply(tx, now, ticket, cause, state)
		return err
	})
	return change, err
}

func apply(tx *gorm.DB, now time.Time, ticket int64, cause Cause, state subscription.State) (change Change, err error) {
	accounts, err := lockOwners(tx, now, &state)
	if err != nil || state.Account == "" {
		return change, err
	}
	change.Account = state.Account
	row, err := findSubscription(tx, state.ID)
	switch {
	case err != nil:
		return change, err
	case row != nil && !slices.Contains(accounts, row.Account):
		return change, problem.Unavailable(errAccountChanged)
	case row != nil:
		stored, err := row.state()
		if err != nil {
			return change, err
		}
		change.Before, change.Stale = &stored, row.Asked >= ticket
	}
	if cause.Action != "" {
		detail := map[string]any{"account": state.Account}
		if err := audit(tx, now, cause.Actor, cause.Action, state.ID, detail); err != nil {
			return change, err
		}
	}
	if change.Stale {
		change.After = change.Before
		return change, nil
	}
	change.After = &state
	if err := saveState(tx, now, ticket, cause, state, change.Before); err != nil {
		return change, err
	}
	for _, account := range accounts {
		if _, _, err := updateEntitlement(tx, now, cause, account); err != nil {
			return change, err
		}
	}
	return change, nil
}

// lockOwners sets state.Account, if the processor did not, from the stored customer or the stored
// subscription, and locks that account. It also locks the account that the subscription is moved
// from, if any. It returns the locked accounts.
func lockOwners(tx *gorm.DB, now time.Time, state *subscription.State) (accounts []string, err error) {
	before, err := findSubscription(tx, state.ID)
	if err != nil {
		return nil, err
	}
	if state.Account == "" {
		if state.Account, err = accountOf(tx, state.Customer); err != nil {
			return nil, err
		}
	}
	if state.Account == "" && before != nil { // the customer was deleted
		state.Account = before.Account
	}
	if state.Account == "" {
		return nil, nil
	}
	accounts = []string{state.Account}
	if before != nil && before.Account != state.Account { // an operator moved it at the processor
		accounts = append(accounts, before.Account)
		slices.Sort(accounts) // a fixed order prevents deadlocks
	}
	for _, account := range accounts {
		if err := lockAccount(tx, account, now); err != nil {
			return nil, err
		}
	}
	return accounts, nil
}

func findSubscription(tx *gorm.DB, id string) (*subscriptionRow, error) {
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

// saveState stores a state and its ticket. An unchanged state only gets the new ticket.
func saveState(tx *gorm.DB, now time.Time, ticket int64, cause Cause, state subscription.State,
	before *subscription.State) error {
	encoded, err := json.Marshal(state)
	if err != nil {
		return err
	}
	if before != nil && subscription.Equal(*before, state) {
		return tx.Exec("UPDATE subscriptions SET asked = ? WHERE id = ?", ticket, state.ID).Error
	}
	err = tx.Exec(`INSERT INTO subscriptions (id, account, customer, state, asked, changed_at) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET account = excluded.account, customer = excluded.customer, state = excluded.state,
			asked = excluded.asked, changed_at = excluded.changed_at`,
		state.ID, state.Account, state.Customer, string(encoded), ticket, database.Micros(now)).Error
	if err != nil {
		return err
	}
	// A subscription that an operator created at the processor may come with a new customer.
	// Storing it makes the portal and the reconciliation work for the account.
	err = tx.Exec("INSERT INTO customers (account, customer, created_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
		state.Account, state.Customer, database.Micros(now)).Error
	if err != nil {
		return err
	}
	if purchaseFinished(state) && (before == nil || !purchaseFinished(*before)) { // the next checkout starts a new attempt
		if err := tx.Exec("DELETE FROM checkouts WHERE account = ?", state.Account).Error; err != nil {
			return err
		}
	}
	if _, err := addChange(tx, now, 0); err != nil {
		return err
	}
	return audit(tx, now, cause.Actor, "subscription.change", state.ID,
		withEvent(cause, map[string]any{"account": state.Account, "state": state}))
}

// purchaseFinished reports whether the purchase attempt behind a subscription is over: it was paid,
// or it ended unpaid.
func purchaseFinished(s subscription.State) bool { return s.Paid != nil || s.Ended }

func withEvent(cause Cause, detail map[string]any) map[string]any {
	if cause.Event != "" {
		detail["event"] = cause.Event
	}
	return detail
}
