package sandbox

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
)

const (
	Interval = 5 * time.Second // between checks for due renewals
	Retry    = time.Second     // between deliveries of an event that failed
)

func storeEvent(tx *gorm.DB, eventType string, about object) error {
	id := "evt_sandbox_" + rand.Text()
	return put(tx, eventKind, id, "", time.Unix(0, 0), object{"id": id, "object": "event", "type": eventType,
		"data": object{"object": about}})
}

func (s *Sandbox) wake() {
	select {
	case s.wakeup <- struct{}{}:
	default: // already pending
	}
}

// Wakeups returns a channel that receives when events may be pending. Process then delivers them
// without waiting for the next interval.
func (s *Sandbox) Wakeups() <-chan struct{} { return s.wakeup }

// Deliver delivers one webhook event with its Stripe-Signature header. If it fails, the event is
// delivered again.
type Deliver func(ctx context.Context, body []byte, signature string) error

// Process renews and ends the subscriptions that are due, and delivers every pending event until
// that succeeds. Events may arrive out of order and more than once. A failing event does not hold
// up the others.
func (s *Sandbox) Process(ctx context.Context, deliver Deliver) error {
	due, err := s.due(ctx)
	if err != nil || len(due) == 0 {
		return err
	}
	for _, r := range due {
		switch r.Kind {
		case subscriptionKind:
			err = errors.Join(err, s.Update(ctx, r.ID, func(*Subscription, time.Time) ([]string, error) { return nil, nil }))
		case sessionKind, requestKind: // expired
			err = errors.Join(err, s.delete(ctx, r))
		}
	}
	events, dueErr := s.due(ctx)
	err = errors.Join(err, dueErr)
	for _, r := range events {
		if r.Kind != eventKind {
			continue
		}
		eventErr := deliver(ctx, []byte(r.Object), s.sign(r.Object))
		if eventErr == nil {
			eventErr = s.delete(ctx, r)
		}
		err = errors.Join(err, eventErr)
	}
	return err
}

// due returns the objects that are due, oldest first.
func (s *Sandbox) due(ctx context.Context) (due []row, err error) {
	err = s.db.WithContext(ctx).Order("number").Find(&due, "due_at <= ?", s.time().Unix()).Error
	return due, err
}

func (s *Sandbox) delete(ctx context.Context, r row) error {
	return s.db.WithContext(ctx).Delete(&r).Error
}

func (s *Sandbox) sign(body string) string {
	stamp := s.now().Unix()
	mac := hmac.New(sha256.New, []byte(s.Secret))
	fmt.Fprintf(mac, "%d.%s", stamp, body)
	return fmt.Sprintf("t=%d,v1=%s", stamp, hex.EncodeToString(mac.Sum(nil)))
}
