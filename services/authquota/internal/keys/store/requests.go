package store

import (
	"context"
	"errors"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/dbtx"
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
		AskedAt: database.FromMicros(r.AskedAt), DecidedAt: dbtx.Instant(r.DecidedAt), DecidedBy: r.DecidedBy,
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

// lockRequest reads a request and locks it until tx ends.
func lockRequest(tx *dbtx.Tx, id string) (requestRow, error) {
	var row requestRow
	err := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Take(&row, "id = ?", id).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		err = account.RequestNotFound()
	}
	return row, err
}

// OwnRequests returns the account's open requests and those declined within account.DeclinedShown, oldest first.
func (s *Store) OwnRequests(ctx context.Context, id string) ([]account.Request, error) {
	var rows []requestRow
	err := s.db.WithContext(ctx).Order("asked_at, id").Find(&rows, "account_id = ? AND (state IN ? OR state = ? AND decided_at > ?)",
		id, openStates, account.Declined, database.Micros(s.db.Now().Add(-account.DeclinedShown))).Error
	return toRequests(rows), database.Outage(err)
}

// RequestKey records a person's request for a key, and that the account accepts the terms of use. If atOnce, it approves the request.
func (s *Store) RequestKey(ctx context.Context, id string, wanted account.RequestedKey, terms account.Acceptance, atOnce bool) (account.Request, error) {
	var req account.Request
	err := s.db.Change(ctx, func(tx *dbtx.Tx) error {
		a, err := lockHolder(tx, id)
		if err != nil {
			return err
		}
		taken, err := keysInUse(tx, a.ID)
		if err != nil {
			return err
		}
		if taken >= account.MaxActive {
			return account.NoPlace()
		}
		if err := tx.AcceptTerms(a.ID, terms); err != nil {
			return err
		}
		req = account.Request{
			ID: account.NewRequestID(), Account: a.ID, Name: wanted.Name, UseCase: wanted.UseCase, State: account.Asked, AskedAt: tx.Now,
		}
		row := requestRow{
			ID: req.ID, AccountID: req.Account, Name: req.Name, UseCase: req.UseCase, State: string(req.State),
			AskedAt: database.Micros(tx.Now),
		}
		err = errors.Join(tx.Create(&row).Error,
			tx.Record(a.ID, "key.request", req.ID, map[string]any{"account": a.ID, "name": wanted.Name, "useCase": wanted.UseCase}))
		if err != nil || !atOnce {
			return err
		}
		if _, err := account.Approve().Apply(&req, "auto-approve", tx.Now); err != nil {
			return err
		}
		return saveDecision(tx, req, false) // the next page shows it
	})
	return req, err
}

// Withdraw ends an open request of the account. Withdrawing again changes nothing.
func (s *Store) Withdraw(ctx context.Context, id, request string) error {
	return s.db.Change(ctx, func(tx *dbtx.Tx) error {
		row, err := lockRequest(tx, request)
		if err == nil && row.AccountID != id {
			err = account.RequestNotFound()
		}
		if err != nil || row.State == string(account.Withdrawn) {
			return err
		}
		if !row.toRequest().State.Open() {
			return account.NotOpen(account.RequestState(row.State))
		}
		return errors.Join(
			tx.Model(&requestRow{}).Where("id = ?", request).Update("state", account.Withdrawn).Error,
			tx.Record(id, "key.withdraw", request, map[string]any{"account": id}),
		)
	})
}
