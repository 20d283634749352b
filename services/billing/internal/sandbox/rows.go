package sandbox

import (
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/database"
)

type customerRow struct {
	ID       string `gorm:"primaryKey"`
	Account  string
	Declines bool
}

func (customerRow) TableName() string { return "sandbox_customers" }

type subscriptionRow struct {
	ID                string `gorm:"primaryKey"`
	Customer          string
	Account           string `gorm:"->"` // of the customer; only set by load
	Status            Status
	CancelAtPeriodEnd bool
	CreatedAt         int64 `gorm:"autoCreateTime:false"`
	PeriodEnd         int64
}

func (subscriptionRow) TableName() string { return "sandbox_subscriptions" }

type invoiceRow struct {
	ID           string `gorm:"primaryKey"`
	Subscription string
	Number       int
	USD          int `gorm:"column:usd"`
	PeriodStart  int64
	PeriodEnd    int64
	Paid         bool
	Refunded     bool
	Dispute      Dispute
}

func (invoiceRow) TableName() string { return "sandbox_invoices" }

type sessionRow struct {
	ID           string `gorm:"primaryKey"`
	Kind         Kind
	Customer     string
	Attempt      string
	ReturnURL    string
	Subscription string
	ExpiresAt    int64
}

func (sessionRow) TableName() string { return "sandbox_sessions" }

type eventRow struct {
	ID           string `gorm:"primaryKey"`
	At           int64
	Kind         string
	Subscription string
}

func (eventRow) TableName() string { return "sandbox_events" }

// load returns the subscriptions that match where, with their invoices, newest first.
func load(tx *gorm.DB, where string, args ...any) ([]Subscription, error) {
	var rows []subscriptionRow
	err := tx.Table("sandbox_subscriptions s").Joins("JOIN sandbox_customers c ON c.id = s.customer").Select("s.*, c.account").
		Where(where, args...).Order("s.id DESC").Find(&rows).Error
	if err != nil {
		return nil, err
	}
	subscriptions := make([]Subscription, len(rows))
	for i, r := range rows {
		subscriptions[i] = Subscription{
			ID: r.ID, Customer: r.Customer, Account: r.Account, Status: r.Status, CancelAtPeriodEnd: r.CancelAtPeriodEnd,
			CreatedAt: database.FromMicros(r.CreatedAt), PeriodEnd: database.FromMicros(r.PeriodEnd),
		}
		var invoices []invoiceRow
		if err := tx.Order("number DESC").Find(&invoices, "subscription = ?", r.ID).Error; err != nil {
			return nil, err
		}
		for _, in := range invoices {
			subscriptions[i].Invoices = append(subscriptions[i].Invoices, Invoice{
				ID: in.ID, USD: in.USD, From: database.FromMicros(in.PeriodStart), Until: database.FromMicros(in.PeriodEnd),
				Paid: in.Paid, Refunded: in.Refunded, Dispute: in.Dispute,
			})
		}
	}
	return subscriptions, nil
}

// save inserts or updates a subscription and enqueues its events.
func save(tx *gorm.DB, s Subscription, events []string, now time.Time) error {
	overwrite := tx.Session(&gorm.Session{}).Clauses(clause.OnConflict{UpdateAll: true})
	err := overwrite.Create(&subscriptionRow{
		ID: s.ID, Customer: s.Customer, Status: s.Status, CancelAtPeriodEnd: s.CancelAtPeriodEnd,
		CreatedAt: database.Micros(s.CreatedAt), PeriodEnd: database.Micros(s.PeriodEnd),
	}).Error
	if err != nil {
		return err
	}
	rows := make([]invoiceRow, len(s.Invoices))
	for i, in := range s.Invoices {
		rows[i] = invoiceRow{
			ID: in.ID, Subscription: s.ID, Number: len(rows) - i, USD: in.USD, Paid: in.Paid, Refunded: in.Refunded, Dispute: in.Dispute,
			PeriodStart: database.Micros(in.From), PeriodEnd: database.Micros(in.Until),
		}
	}
	if err := tx.Clauses(clause.OnConflict{UpdateAll: true}).Create(&rows).Error; err != nil {
		return err
	}
	return enqueueEvents(tx, s.ID, events, now)
}
