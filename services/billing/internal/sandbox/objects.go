package sandbox

import (
	"encoding/json"
	"errors"
	"time"

	"gorm.io/gorm"
)

// Kinds of stored objects.
const (
	customerKind     = "customer"
	subscriptionKind = "subscription" // with its invoices
	sessionKind      = "session"      // of the checkout or the portal
	eventKind        = "event"        // not delivered yet
	requestKind      = "request"      // with an idempotency key
)

var errNotFound = errors.New("not found in the sandbox")

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

func get[T any](tx *gorm.DB, kind, id string) (object T, err error) {
	found, err := list[T](tx, "kind = ? AND id = ?", kind, id)
	if err != nil || len(found) > 0 {
		return append(found, object)[0], err
	}
	return object, errNotFound
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

// customer is a customer. The email address is not stored, because the sandbox sends no mail.
type customer struct {
	ID       string
	Metadata map[string]string
	Declines bool // the card is declined when it is charged
	Deleted  bool
}

func (c customer) save(tx *gorm.DB) error {
	return put(tx, customerKind, c.ID, c.ID, time.Time{}, c)
}

// Kind is the type of a session.
type Kind string

const (
	Checkout Kind = "checkout" // one purchase
	Portal   Kind = "portal"   // existing subscriptions
)

type session struct {
	ID         string
	Kind       Kind
	Customer   string
	Account    string            // in the metadata of the session
	Metadata   map[string]string // of the subscription that is bought
	SuccessURL string            // of a portal: where it returns to
	CancelURL  string
	ExpiresAt  time.Time

	Subscription string // what was bought; empty before the first payment attempt
	Complete     bool   // paid
	Expired      bool
}

func (s session) save(tx *gorm.DB) error {
	return put(tx, sessionKind, s.ID, s.Customer, s.ExpiresAt, s)
}

func (s session) status(now time.Time) string {
	switch {
	case s.Complete:
		return "complete"
	case s.Expired || !s.ExpiresAt.After(now):
		return "expired"
	}
	return "open"
}

// request is a successful or declined request, whose response is repeated for its idempotency key.
type request struct {
	Parameters string // method, path and form
	Status     int
	Body       json.RawMessage
}
