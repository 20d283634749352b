package keys

import (
	"context"
	"errors"
	"strconv"
	"time"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/notices"
)

// NoticeDays are the days before expiry when the person is notified, in ascending order.
var NoticeDays = []int{1, 7, 30}

// Notice returns the latest of NoticeDays that the key has reached at now, or 0. After a delay,
// only the latest notice is sent. A key gets no notice if it was revoked, has a successor, or has a
// life no longer than that.
func (k Key) Notice(now time.Time) int {
	if !k.Counts(now) {
		return 0
	}
	for _, days := range NoticeDays {
		if at := k.ExpiresAt.AddDate(0, 0, -days); !now.Before(at) {
			if at.After(k.CreatedAt) {
				return days
			}
			return 0
		}
	}
	return 0
}

const noticeBatch = 200

// Remind posts the due notices about the end of keys, one mail for each. Several processes may call
// it concurrently.
func (s *Store) Remind(ctx context.Context) error {
	for after := ""; ; {
		now := s.db.Now().UTC()
		in := func(days int) int64 { return database.Micros(now.AddDate(0, 0, days)) }
		expiring, err := findKeys(s.db.WithContext(ctx), `
			WHERE k.expires_at > ? AND k.expires_at <= ? AND k.revoked_at IS NULL AND k.replaced_at IS NULL AND k.id > ?
				AND EXISTS (SELECT 1 FROM people p WHERE p.account_id = k.account_id AND p.closed_at IS NULL)
				AND NOT EXISTS (SELECT 1 FROM notice_events n WHERE n.account_id = k.account_id AND n.kind = ?
					AND n.event = k.id || CASE WHEN k.expires_at <= ? THEN '/1' WHEN k.expires_at <= ? THEN '/7' ELSE '/30' END)
			ORDER BY k.id LIMIT ?`, in(0), in(30), after, notices.KeyExpiry, in(1), in(7), noticeBatch)
		if err != nil {
			return database.Outage(err)
		}
		var failures []error // an error of one key does not block the others
		for _, k := range expiring {
			after = k.ID
			if k.Notice(now) > 0 {
				failures = append(failures, s.remind(ctx, k.ID))
			}
		}
		if err := errors.Join(failures...); err != nil || len(expiring) < noticeBatch {
			return err
		}
	}
}

// remind claims the notice of a key in the transaction that posts its mail, so that concurrent
// processes post it once.
func (s *Store) remind(ctx context.Context, id string) error {
	return s.db.Change(ctx, func(tx *accountdb.Tx) error {
		key, err := findKey(tx.DB, "WHERE k.id = ?", id)
		if err != nil {
			return err
		}
		days := key.Notice(tx.Now)
		if days == 0 { // it was revoked or replaced in the meantime
			return nil
		}
		event := id + "/" + strconv.Itoa(days)
		return notices.NotifyOnce(tx, notices.KeyExpiry, key.Account, event, "key-expires", map[string]string{
			"name": key.Title(), "key": key.Shown(), "when": account.FormatTime(key.ExpiresAt), "days": strconv.Itoa(days),
		})
	})
}
