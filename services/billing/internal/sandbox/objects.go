package sandbox

import (
	"encoding/json"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/services/billing/internal/subscription"
)

// Kinds of stored objects, beside those of sessions.
const (
	customerKind     = "customer"
	subscriptionKind = "subscription" // with its invoices
	eventKind        = "event"        // not delivered yet
)

// Kind is the kind of a session.
type Kind string

const (
	Checkout Kind = "checkout" // one purchase
	Portal   Kind = "portal"   // existing subscriptions
)

type row struct {
	Number   int64 `gorm:"primaryKey"` // order of creation
	ID       string
	Kind     string
	Customer string // empty if the object is not of one customer
	DueAt    *int64 // Unix time at which Process handles the object; nil: never
	Object   string // JSON
}

func (row) TableName() string { return "sandbox_objects" }

// put inserts or replaces an object. The zero time means that the object is never due.
func put(tx *gorm.DB, kind, id, customer string, due time.Time, object any) error {
	encoded, err := json.Marshal(object)
	if err != nil {
		return err
	}
	var dueAt *int64
	if !due.IsZero() {
		at := due.Unix()
		dueAt = &at
	}
	return tx.Exec(`INSERT INTO sandbox_objects (id, kind, customer, due_at, object) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET due_at = excluded.due_at, object = excluded.object`,
		id, kind, customer, dueAt, string(encoded)).Error
}

// get returns the object with an id, or subscription.ErrNotFound.
func get[T any](tx *gorm.DB, kind, id string) (object T, err error) {
	found, err := list[T](tx, "kind = ? AND id = ?", kind, id)
	if err != nil || len(found) > 0 {
		return append(found, object)[0], err
	}
	return object, subscription.ErrNotFound
}

// list returns the objects that match where, newest first.
func list[T any](tx *gorm.DB, where string, args ...any) ([]T, error) {
	var rows []row
	if err := tx.Where(where, args...).Order("number DESC").Find(&rows).Error; err != nil {
		return nil, err
	}
	objects := make([]T, len(rows))
	for i, r := range rows {
		if err := json.Unmarshal([]byte(r.Object), &objects[i]); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

type customer struct {
	ID       string
	Account  string
	Declines bool // the card is declined when it is charged
}

func (c customer) save(tx *gorm.DB) error {
	return put(tx, customerKind, c.ID, c.ID, time.Time{}, c)
}

type session struct {
	ID         string
	Kind       Kind
	Customer   string
	SuccessURL string // of a portal: where it returns to
	CancelURL  string
	ExpiresAt  time.Time
	Bought     string // id of a subscription; empty before the first payment attempt
}

func (s session) save(tx *gorm.DB) error {
	return put(tx, string(s.Kind), s.ID, s.Customer, s.ExpiresAt, s)
}
