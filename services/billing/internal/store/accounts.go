package store

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/billing/internal/sales"
	"opportunity.internal/services/billing/internal/subscription"
)

// Standing is all that is kept of an account. One that nothing was ever heard of has nothing, on the free tier.
func (s *Store) Standing(ctx context.Context, account string) (subscription.Standing, error) {
	standing := subscription.Standing{Account: account, Entitlement: api.Entitlement{Tier: api.Free}}
	err := s.transaction(ctx, func(tx *gorm.DB, _ time.Time) (err error) {
		var row entitlementRow
		switch err := tx.Where("account = ?", account).Take(&row).Error; {
		case err == nil:
			standing.Entitlement = row.entitlement()
		case !errors.Is(err, gorm.ErrRecordNotFound):
			return err
		}
		if err := tx.Raw("SELECT customer FROM customers WHERE account = ?", account).Scan(&standing.Customer).Error; err != nil {
			return err
		}
		standing.States, err = statesOf(tx, account)
		return err
	})
	return standing, err
}

// KeepCustomer keeps the processor's customer of an account. Where one is kept already, that one stays and is returned.
func (s *Store) KeepCustomer(ctx context.Context, account, customer string) (string, error) {
	err := s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		err := tx.Exec("INSERT INTO customers (account, customer, created_at) VALUES (?, ?, ?) ON CONFLICT (account) DO NOTHING",
			account, customer, database.Micros(now)).Error
		if err != nil {
			return err
		}
		return tx.Raw("SELECT customer FROM customers WHERE account = ?", account).Scan(&customer).Error
	})
	return customer, err
}

// ForgetCustomer removes the customer of an account, and the page on which that one was to buy, unless another one is kept by now.
func (s *Store) ForgetCustomer(ctx context.Context, account, customer string) error {
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		gone := tx.Exec("DELETE FROM customers WHERE account = ? AND customer = ?", account, customer)
		if gone.Error != nil || gone.RowsAffected == 0 {
			return gone.Error
		}
		return errors.Join(
			tx.Exec("DELETE FROM checkouts WHERE account = ?", account).Error,
			record(tx, now, account, "customer.forget", account, map[string]any{"customer": customer}))
	})
}

type customerRow struct {
	Account  string `gorm:"primaryKey"`
	Customer string
}

func (customerRow) TableName() string { return "customers" }

// Customers are at most limit accounts that the processor knows, in their order, after one of them.
func (s *Store) Customers(ctx context.Context, after string, limit int) ([]subscription.Standing, error) {
	var rows []customerRow
	if err := s.db.WithContext(ctx).Where("account > ?", after).Order("account").Limit(limit).Find(&rows).Error; err != nil {
		return nil, database.Outage(err)
	}
	out := make([]subscription.Standing, len(rows))
	for i, r := range rows {
		states, err := statesOf(s.db.WithContext(ctx), r.Account)
		if err != nil {
			return nil, database.Outage(err)
		}
		out[i] = subscription.Standing{Account: r.Account, Customer: r.Customer, States: states}
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

// pageless is for how long an attempt waits for its page. One without a page has shown nobody anything, and is begun anew before there is
// too little of its life left for a page.
const pageless = time.Hour

// Attempt is the account's wish to buy: the one that was begun within life, or a new one.
func (s *Store) Attempt(ctx context.Context, account, returnURL string, life time.Duration) (a sales.Attempt, err error) {
	err = s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		err := tx.Exec(`INSERT INTO checkouts (account, attempt, return_url, url, created_at) VALUES (?, ?, ?, '', ?)
			ON CONFLICT (account) DO UPDATE SET attempt = excluded.attempt, return_url = excluded.return_url, url = '',
				created_at = excluded.created_at
			WHERE checkouts.created_at <= ? OR checkouts.url = '' AND checkouts.created_at <= ?
				OR checkouts.return_url <> excluded.return_url`,
			account, "att_"+uuid.NewString(), returnURL, database.Micros(now), database.Micros(now.Add(-life)),
			database.Micros(now.Add(-pageless))).Error
		if err != nil {
			return err
		}
		var row checkoutRow
		err = tx.Where("account = ?", account).Take(&row).Error
		a = sales.Attempt{ID: row.Attempt, URL: row.URL, Until: database.FromMicros(row.CreatedAt).Add(life)}
		return err
	})
	return a, err
}

// KeepPage keeps the processor's page of an attempt.
func (s *Store) KeepPage(ctx context.Context, account, attempt, url string) error {
	return database.Outage(s.db.WithContext(ctx).
		Exec("UPDATE checkouts SET url = ? WHERE account = ? AND attempt = ?", url, account, attempt).Error)
}
