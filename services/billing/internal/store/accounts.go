package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/billing/internal/subscription"
)

// Account returns what is stored about an account. An unknown account has the free tier and no
// subscriptions.
func (s *Store) Account(ctx context.Context, account string) (subscription.Account, error) {
	found := subscription.Account{ID: account, Entitlement: api.Entitlement{Tier: api.BaseTier}}
	err := s.transaction(ctx, func(tx *gorm.DB, now time.Time) (err error) {
		var row entitlementRow
		switch err := tx.Where("account = ?", account).Take(&row).Error; {
		case err == nil:
			found.Entitlement = row.entitlement()
		case !errors.Is(err, gorm.ErrRecordNotFound):
			return err
		}
		if err := tx.Raw("SELECT customer FROM customers WHERE account = ?", account).Scan(&found.Customer).
			Error; err != nil {
			return err
		}
		var open int64
		err = tx.Model(&checkoutRow{}).Where("account = ? AND url <> '' AND created_at > ?", account,
			database.Micros(now.Add(-attemptTTL))).Count(&open).Error
		if err != nil {
			return err
		}
		found.Checkout = open > 0
		found.States, err = loadStates(tx, account)
		return err
	})
	return found, err
}

// SaveCustomer stores the account's customer unless it already has one, and returns the stored
// customer.
func (s *Store) SaveCustomer(ctx context.Context, account, customer string) (string, error) {
	err := s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		// Without a target: of two inserts of the same row at the same time, Postgres may report
		// either of its unique columns.
		inserted := tx.Exec("INSERT INTO customers (account, customer, created_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
			account, customer, database.Micros(now))
		if inserted.Error != nil {
			return inserted.Error
		}
		if inserted.RowsAffected > 0 {
			if _, err := addChange(tx, now, 0); err != nil {
				return err
			}
		}
		found := tx.Raw("SELECT customer FROM customers WHERE account = ?", account).Scan(&customer)
		if found.Error == nil && found.RowsAffected == 0 {
			return fmt.Errorf("customer %s belongs to another account than %s", customer, account)
		}
		return found.Error
	})
	return customer, err
}

// DeleteCustomer deletes the account's customer and its purchase attempt, unless the customer has
// been replaced by another one.
func (s *Store) DeleteCustomer(ctx context.Context, account, customer string) error {
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		deleted := tx.Exec("DELETE FROM customers WHERE account = ? AND customer = ?", account, customer)
		if deleted.Error != nil || deleted.RowsAffected == 0 {
			return deleted.Error
		}
		if err := tx.Exec("DELETE FROM checkouts WHERE account = ?", account).Error; err != nil {
			return err
		}
		_, err := addChange(tx, now, 0)
		return errors.Join(err, audit(tx, now, account, "customer.forget", account, map[string]any{"customer": customer}))
	})
}

type customerRow struct {
	Account  string `gorm:"primaryKey"`
	Customer string
}

func (customerRow) TableName() string { return "customers" }

// Customers returns at most limit accounts with a customer at the processor, ordered by id,
// starting after the given id. It leaves their Entitlement empty.
func (s *Store) Customers(ctx context.Context, after string, limit int) ([]subscription.Account, error) {
	var rows []customerRow
	if err := s.db.WithContext(ctx).Where("account > ?", after).Order("account").Limit(limit).Find(&rows).
		Error; err != nil {
		return nil, database.Outage(err)
	}
	out := make([]subscription.Account, len(rows))
	for i, r := range rows {
		states, err := loadStates(s.db.WithContext(ctx), r.Account)
		if err != nil {
			return nil, database.Outage(err)
		}
		out[i] = subscription.Account{ID: r.Account, Customer: r.Customer, States: states}
	}
	return out, nil
}

type checkoutRow struct {
	Account   string `gorm:"primaryKey"`
	Attempt   string
	ReturnURL string
	URL       string
	CreatedAt int64 `gorm:"autoCreateTime:false"`
}

func (checkoutRow) TableName() string { return "checkouts" }

// urlTimeout limits how long an attempt may lack a session URL, which it does if the processor
// failed. An older one is replaced, because the processor opens no session that would expire soon.
const urlTimeout = time.Hour

// attemptTTL limits how long checkouts reuse the same session. The session expires with its
// attempt, because two open sessions could both be paid. Stripe allows between 30 minutes and 24
// hours.
const attemptTTL = 12 * time.Hour

// Attempt returns the account's purchase attempt if it has not expired and has the same return URL;
// otherwise it starts a new one.
func (s *Store) Attempt(ctx context.Context, account, returnURL string) (a Attempt, err error) {
	err = s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		started := tx.Exec(`INSERT INTO checkouts (account, attempt, return_url, url, created_at) VALUES (?, ?, ?, '', ?)
			ON CONFLICT (account) DO UPDATE SET attempt = excluded.attempt, return_url = excluded.return_url, url = '',
				created_at = excluded.created_at
			WHERE checkouts.created_at <= ? OR checkouts.url = '' AND checkouts.created_at <= ?
				OR checkouts.return_url <> excluded.return_url`,
			account, "att_"+uuid.NewString(), returnURL, database.Micros(now), database.Micros(now.Add(-attemptTTL)),
			database.Micros(now.Add(-urlTimeout)))
		err := started.Error
		if err == nil && started.RowsAffected > 0 {
			_, err = addChange(tx, now, 0)
		}
		if err != nil {
			return err
		}
		var row checkoutRow
		err = tx.Where("account = ?", account).Take(&row).Error
		a = Attempt{ID: row.Attempt, URL: row.URL, ExpiresAt: database.FromMicros(row.CreatedAt).Add(attemptTTL)}
		return err
	})
	return a, err
}

// SaveCheckoutURL stores the URL of an attempt's checkout session.
func (s *Store) SaveCheckoutURL(ctx context.Context, account, attempt, url string) error {
	return database.Outage(s.db.WithContext(ctx).
		Exec("UPDATE checkouts SET url = ? WHERE account = ? AND attempt = ?", url, account, attempt).Error)
}
