package store

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
)

type requestRow struct {
	ID        string `gorm:"primaryKey"`
	AccountID string
	Name      string
	UseCase   string
	State     string
	Reason    string
	AskedAt   int64
	DecidedAt *int64
	DecidedBy string
	KeyID     *string
}

func (requestRow) TableName() string { return "key_requests" }

var openStates = []string{string(account.Asked), string(account.Approved)}

func (r requestRow) toRequest() account.Request {
	return account.Request{
		ID: r.ID, Account: r.AccountID, Name: r.Name, UseCase: r.UseCase, State: account.RequestState(r.State), Reason: r.Reason,
		AskedAt: database.FromMicros(r.AskedAt), DecidedAt: instant(r.DecidedAt), DecidedBy: r.DecidedBy,
	}
}

func toRequests(rows []requestRow) []account.Request {
	requests := make([]account.Request, len(rows))
	for i, r := range rows {
		requests[i] = r.toRequest()
	}
	return requests
}

// Requests lists a page of the undecided requests or, with all, of every request, oldest first; more reports whether there is another
// page.
func (s *Store) Requests(ctx context.Context, all bool, page account.Page) (requests []account.Request, more bool, err error) {
	var rows []requestRow
	q := s.db.WithContext(ctx).Order("id").Where("id > ?", page.After)
	if !all {
		q = q.Where("state = ?", account.Asked)
	}
	if page.Limit > 0 {
		q = q.Limit(page.Limit + 1)
	}
	err = q.Find(&rows).Error
	if more = page.Limit > 0 && len(rows) > page.Limit; more {
		rows = rows[:page.Limit]
	}
	return toRequests(rows), more, database.Outage(err)
}

// Decide applies an operator's decision to a request, posts a mail to its person and returns the request.
func (s *Store) Decide(ctx context.Context, actor, id string, decision account.Decide) (account.Request, error) {
	var decided account.Request
	err := s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		row, err := lockRequest(tx, id)
		if err != nil {
			return err
		}
		decided = row.toRequest()
		changed, err := decision.Apply(&decided, actor, now)
		if err != nil || !changed {
			return err
		}
		return s.decided(tx, now, decided, true)
	})
	return decided, err
}

// decided stores a decision with its audit entry and, if notify is set, a mail.
func (s *Store) decided(tx *gorm.DB, now time.Time, r account.Request, notify bool) error {
	detail := map[string]any{"account": r.Account}
	action, template, data := "key.approve", "key-request-approved", map[string]string{"use_case": r.UseCase, "link": s.writer.Page("/account/keys")}
	if r.State == account.Declined {
		detail["reason"] = r.Reason
		action, template, data = "key.decline", "key-request-declined", map[string]string{"use_case": r.UseCase, "reason": r.Reason}
	}
	err := errors.Join(
		tx.Model(&requestRow{}).Where("id = ?", r.ID).Updates(map[string]any{
			"state": r.State, "reason": r.Reason, "decided_at": micros(r.DecidedAt), "decided_by": r.DecidedBy,
		}).Error,
		record(tx, now, r.DecidedBy, action, r.ID, detail),
	)
	if err != nil || !notify {
		return err
	}
	return s.notify(tx, now, r.Account, template, data)
}

// lockRequest reads a request and locks it until tx ends.
func lockRequest(tx *gorm.DB, id string) (requestRow, error) {
	var row requestRow
	err := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Take(&row, "id = ?", id).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		err = account.RequestNotFound()
	}
	return row, err
}
