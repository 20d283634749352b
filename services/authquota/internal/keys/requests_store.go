package keys

import (
	"context"
	"errors"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/dbtx"
)

type requestRow struct {
	ID          string `gorm:"primaryKey"`
	AccountID   string
	Name        string
	UseCase     string
	Test        bool
	State       string
	Reason      string
	RequestedAt int64 `gorm:"column:asked_at"`
	DecidedAt   *int64
	DecidedBy   string
	KeyID       *string
}

func (requestRow) TableName() string { return "key_requests" }

var openStates = []string{string(Pending), string(Approved)}

func (r requestRow) toRequest() Request {
	return Request{
		ID: r.ID, Account: r.AccountID, Name: r.Name, UseCase: r.UseCase, Test: r.Test, State: RequestState(r.State), Reason: r.Reason,
		RequestedAt: database.FromMicros(r.RequestedAt), DecidedAt: dbtx.Instant(r.DecidedAt), DecidedBy: r.DecidedBy,
	}
}

func toRequests(rows []requestRow) []Request {
	requests := make([]Request, len(rows))
	for i, r := range rows {
		requests[i] = r.toRequest()
	}
	return requests
}

// Requests lists a page of the undecided requests or, with all, of every request, oldest first; more reports whether there is another
// page.
func (s *Store) Requests(ctx context.Context, all bool, page account.Page) (requests []Request, more bool, err error) {
	var rows []requestRow
	q := s.db.WithContext(ctx).Order("id").Where("id > ?", page.After)
	if !all {
		q = q.Where("state = ?", Pending)
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

// lockRequest reads a request and locks it until tx ends.
func lockRequest(tx *dbtx.Tx, id string) (requestRow, error) {
	var row requestRow
	err := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Take(&row, "id = ?", id).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		err = RequestNotFound()
	}
	return row, err
}

// OwnRequests returns the account's open requests and those declined within keys.DeclinedShown, oldest first.
func (s *Store) OwnRequests(ctx context.Context, id string) ([]Request, error) {
	var rows []requestRow
	err := s.db.WithContext(ctx).Order("asked_at, id").Find(&rows, "account_id = ? AND (state IN ? OR state = ? AND decided_at > ?)",
		id, openStates, Declined, database.Micros(s.db.Now().Add(-DeclinedShown))).Error
	return toRequests(rows), database.Outage(err)
}

// HadTestKey reports whether the account got its test key, or can collect it.
func (s *Store) HadTestKey(ctx context.Context, id string) (bool, error) {
	had, err := hadTestKey(s.db.WithContext(ctx), id)
	return had, database.Outage(err)
}

func hadTestKey(db *gorm.DB, id string) (bool, error) {
	var n int64
	err := db.Model(&requestRow{}).Where("account_id = ? AND test AND state <> ?", id, Withdrawn).Count(&n).Error
	return n > 0, err
}

// RequestKey records a person's request for a key, and that the account accepts the terms of use. It approves a request for the
// account's test key and, if atOnce, every other one.
func (s *Store) RequestKey(ctx context.Context, id string, wanted RequestedKey, terms account.Acceptance, atOnce bool) (Request, error) {
	var req Request
	err := s.db.Change(ctx, func(tx *dbtx.Tx) error {
		a, err := lockHolder(tx, id)
		if err != nil {
			return err
		}
		if err := checkRequest(tx, a, wanted); err != nil {
			return err
		}
		if err := account.AcceptTerms(tx, a.ID, terms); err != nil {
			return err
		}
		req = Request{
			ID: NewRequestID(), Account: a.ID, Name: wanted.Name, UseCase: wanted.UseCase, Test: wanted.Test, State: Pending,
			RequestedAt: tx.Now,
		}
		row := requestRow{
			ID: req.ID, AccountID: req.Account, Name: req.Name, UseCase: req.UseCase, Test: req.Test, State: string(req.State),
			RequestedAt: database.Micros(tx.Now),
		}
		tx.Changed("key_requests", "id", dbtx.One(req.ID))
		err = errors.Join(tx.Create(&row).Error,
			tx.Record(a.ID, "key.request", req.ID, map[string]any{"account": a.ID, "name": wanted.Name, "useCase": wanted.UseCase, "test": wanted.Test}))
		if err != nil || !atOnce && !wanted.Test {
			return err
		}
		if _, err := Approve().Apply(&req, "auto-approve", tx.Now); err != nil {
			return err
		}
		return saveDecision(tx, req, false) // the next page shows it
	})
	return req, err
}

// checkRequest returns an error if the locked account cannot have another key, or not the requested test key.
func checkRequest(tx *dbtx.Tx, a account.Account, wanted RequestedKey) error {
	taken, err := keysInUse(tx, a.ID)
	switch {
	case err != nil:
		return err
	case taken >= MaxActive:
		return LimitReached()
	case !wanted.Test:
		return nil
	case a.TierAt(tx.Now) != api.BaseTier:
		return NoTestKey()
	}
	had, err := hadTestKey(tx.DB, a.ID)
	if err == nil && had {
		err = NoTestKey()
	}
	return err
}

// Withdraw ends an open request of the account. Withdrawing again changes nothing.
func (s *Store) Withdraw(ctx context.Context, id, request string) error {
	return s.db.Change(ctx, func(tx *dbtx.Tx) error {
		row, err := lockRequest(tx, request)
		if err == nil && row.AccountID != id {
			err = RequestNotFound()
		}
		if err != nil || row.State == string(Withdrawn) {
			return err
		}
		if !row.toRequest().State.Open() {
			return NotOpen(RequestState(row.State))
		}
		tx.Changed("key_requests", "id", dbtx.One(request), "state")
		return errors.Join(
			tx.Model(&requestRow{}).Where("id = ?", request).Update("state", Withdrawn).Error,
			tx.Record(id, "key.withdraw", request, map[string]any{"account": id}),
		)
	})
}
