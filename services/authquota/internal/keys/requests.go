package keys

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
)

// Request is a person's request for a key. An operator decides it. The key is created when the
// person collects it, so only its holder ever sees it.
type Request struct {
	ID          string `gorm:"primaryKey"`
	Account     string `gorm:"column:account_id"`
	Name        string
	UseCase     string
	Test        bool // for the account's test key, which needs no operator
	State       RequestState
	Reason      string     // of a declined one
	RequestedAt time.Time  `gorm:"column:asked_at;serializer:column"`
	DecidedAt   *time.Time `gorm:"serializer:column"` // nil while it waits for the operator
	DecidedBy   string
}

// TableName implements gorm's Tabler.
func (Request) TableName() string { return "key_requests" }

// Listed returns the request as operators see it.
func (r Request) Listed() api.KeyRequest {
	return api.KeyRequest{
		ID: r.ID, Account: r.Account, Name: r.Name, UseCase: r.UseCase, State: string(r.State), Reason: r.Reason,
		AskedAt: r.RequestedAt, DecidedAt: r.DecidedAt, DecidedBy: r.DecidedBy,
	}
}

// ListedRequests returns requests as operators see them.
func ListedRequests(requests []Request) []api.KeyRequest {
	list := make([]api.KeyRequest, len(requests))
	for i, r := range requests {
		list[i] = r.Listed()
	}
	return list
}

// RequestState is the state of a request.
type RequestState string

const (
	Pending   RequestState = "asked"     // waits for the operator
	Approved  RequestState = "approved"  // waits for the person to collect the key
	Declined  RequestState = "declined"  // with a reason
	Collected RequestState = "collected" // has become a key
	Withdrawn RequestState = "withdrawn" // by the person
)

// Open reports whether the request may still become a key. Open requests count towards MaxActive.
func (s RequestState) Open() bool { return s == Pending || s == Approved }

// NotOpen returns the error for collecting or withdrawing a request whose state does not allow it.
func NotOpen(state RequestState) error {
	switch state {
	case Pending:
		return rejection("This request is waiting for approval.")
	case Declined:
		return rejection("This request was declined.")
	}
	return rejection(
		"This request was already collected or withdrawn, perhaps in another tab. A key is shown once: if you missed it, " +
			"rotate it.")
}

// RequestedKey describes the key that a person requests.
type RequestedKey struct {
	Name    string
	UseCase string
	Test    bool // the account's test key
	Held    bool // an operator decides about the test key
}

// UseCase validates a use case and replaces its line breaks by spaces.
func UseCase(s string) (string, error) { return account.Text("useCase", breaks.Replace(s)) }

var breaks = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ")

// Decide is an operator's decision on a request.
type Decide struct {
	State  RequestState // Approved or Declined
	Reason string       // of Declined; the mail to the person quotes it
}

// Apply decides an undecided request. Repeating its decision changes nothing and is no error; every
// other decision is rejected with the one that was made.
func (d Decide) Apply(r *Request, by string, now time.Time) (changed bool, err error) {
	made := r.State
	if made == Collected {
		made = Approved
	}
	switch made {
	case Pending:
		r.State, r.Reason, r.DecidedAt, r.DecidedBy = d.State, d.Reason, &now, by
		return true, nil
	case d.State:
		return false, nil
	case Withdrawn:
		return false, problem.New(problem.InvalidParameter, "This request was withdrawn, so it can no longer be %s.", d.State)
	case Approved:
		return false, problem.New(problem.InvalidParameter,
			"This request was approved by %s on %s. A decision is final: revoke the key if its holder must not use it.",
			r.DecidedBy, account.FormatTime(*r.DecidedAt))
	}
	return false, problem.New(problem.InvalidParameter,
		"This request was declined by %s on %s. A decision is final: the person can send a new request.", r.DecidedBy,
		account.FormatTime(*r.DecidedAt))
}

var openStates = []RequestState{Pending, Approved}

// Requests lists a page of the undecided requests or, with all, of every request, oldest first;
// more reports whether there is another page.
func (s *Store) Requests(ctx context.Context, all bool, page account.Page) (requests []Request, more bool, err error) {
	q := s.db.WithContext(ctx).Order("id").Where("id > ?", page.After)
	if !all {
		q = q.Where("state = ?", Pending)
	}
	if page.Limit > 0 {
		q = q.Limit(page.Limit + 1)
	}
	err = q.Find(&requests).Error
	if more = page.Limit > 0 && len(requests) > page.Limit; more {
		requests = requests[:page.Limit]
	}
	return requests, more, database.Outage(err)
}

func lockRequest(tx *accountdb.Tx, id string) (r Request, err error) {
	err = tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Take(&r, "id = ?", id).Error
	return r, accountdb.Found(err, "request")
}

// lockOwnRequest is lockRequest for a request of the account.
func lockOwnRequest(tx *accountdb.Tx, account, id string) (Request, error) {
	r, err := lockRequest(tx, id)
	if err == nil && r.Account != account {
		err = problem.NoSuch("request")
	}
	return r, err
}

// DeclinedShown is the time for which a declined request stays on the page.
const DeclinedShown = 30 * 24 * time.Hour

// OwnRequests returns the account's open requests and those declined within DeclinedShown, oldest
// first.
func (s *Store) OwnRequests(ctx context.Context, id string) (own []Request, err error) {
	err = s.db.WithContext(ctx).Order("asked_at, id").
		Find(&own, "account_id = ? AND (state IN ? OR state = ? AND decided_at > ?)",
			id, openStates, Declined, database.Micros(s.db.Now().Add(-DeclinedShown))).Error
	return own, database.Outage(err)
}

// Offer says which keys an account gets without an operator.
type Offer struct {
	Test bool // a test key: the account is on the base tier, and has none
	Live bool // a live key: the account pays, and has none, nor one to collect
}

// Offer returns the offer for an account.
func (s *Store) Offer(ctx context.Context, id string) (Offer, error) {
	db := s.db.WithContext(ctx)
	a, err := account.Read(db, id)
	if err != nil {
		return Offer{}, database.Outage(err)
	}
	o, err := offer(db, id, a.Standing, s.db.Now())
	return o, database.Outage(err)
}

// named is Counted with a named parameter.
var named = strings.Replace(Counted, "?", "@now", 1)

func offer(db *gorm.DB, id string, standing account.Standing, now time.Time) (o Offer, err error) {
	var has struct{ Test, Live int }
	err = db.Raw(`SELECT (SELECT count(*) FROM api_keys k WHERE k.account_id = @id AND k.prefix = @test AND `+named+`) +
		(SELECT count(*) FROM key_requests r WHERE r.account_id = @id AND r.test AND r.state IN @open) AS test,
		(SELECT count(*) FROM api_keys k WHERE k.account_id = @id AND k.prefix <> @test AND `+named+`) +
		(SELECT count(*) FROM key_requests r WHERE r.account_id = @id AND NOT r.test AND r.state = @approved) AS live`,
		map[string]any{"id": id, "approved": Approved, "test": apikey.Test, "now": database.Micros(now),
			"open": openStates}).Scan(&has).Error
	o.Test = has.Test == 0 && standing.TierAt(now) == api.BaseTier
	o.Live = has.Live == 0 && slices.ContainsFunc(standing.Paid, func(e api.Entitlement) bool { return e.Live(now) })
	return o, err
}

// AutoApproval is the actor of approvals without an operator.
const AutoApproval = "auto-approve"

// RequestKey records a person's request for a key, and that the account accepts the terms of use.
// It approves a request for a key of its Offer that is not held and, if atOnce, every other one.
func (s *Store) RequestKey(ctx context.Context, id string, wanted RequestedKey, terms account.Acceptance,
	atOnce bool) (Request, error) {
	return accountdb.Result(ctx, s.db, func(tx *accountdb.Tx) (Request, error) {
		a, err := lockHolder(tx, id)
		if err != nil {
			return Request{}, err
		}
		offered, err := checkRequest(tx, a, wanted)
		if err != nil {
			return Request{}, err
		}
		if err := account.AcceptTerms(tx, a.ID, terms); err != nil {
			return Request{}, err
		}
		created := Request{
			ID: accountdb.NewID("req_"), Account: a.ID, Name: wanted.Name, UseCase: wanted.UseCase, Test: wanted.Test,
			State: Pending, RequestedAt: tx.Now,
		}
		err = errors.Join(tx.Create(&created).Error, tx.Record(a.ID, "key.request", created.ID, map[string]any{
			"account": a.ID, "name": wanted.Name, "useCase": wanted.UseCase, "test": wanted.Test,
		}))
		if err != nil || !atOnce && (!wanted.Test || wanted.Held) && !offered.Live {
			return created, err
		}
		if _, err := (Decide{State: Approved}).Apply(&created, AutoApproval, tx.Now); err != nil {
			return created, err
		}
		return created, saveDecision(tx, created, false) // the next page shows it
	})
}

// ErrNoTestKey is returned for a request for a test key of an account that has one, or is not on
// the base tier.
var ErrNoTestKey = rejection("Your account cannot get another test key: an account on the free plan has one. " +
	"Revoke it first, or request a live key.")

// checkRequest returns the offer for the locked account, and an error if it cannot have another
// key, or not the requested test key.
func checkRequest(tx *accountdb.Tx, a account.Account, wanted RequestedKey) (Offer, error) {
	taken, err := keysInUse(tx, a.ID)
	if err != nil {
		return Offer{}, err
	}
	if taken >= MaxActive {
		return Offer{}, rejection(
			"You have %d active keys and pending requests, the most an account can have. Revoke a key or withdraw a request "+
				"first.", MaxActive)
	}
	offered, err := offer(tx.DB, a.ID, a.Standing, tx.Now)
	if err == nil && wanted.Test && !offered.Test {
		err = ErrNoTestKey
	}
	return offered, err
}

// Withdraw ends an open request of the account. Withdrawing again changes nothing.
func (s *Store) Withdraw(ctx context.Context, id, request string) error {
	return s.db.Change(ctx, func(tx *accountdb.Tx) error {
		r, err := lockOwnRequest(tx, id, request)
		if err != nil || r.State == Withdrawn {
			return err
		}
		if !r.State.Open() {
			return NotOpen(r.State)
		}
		return errors.Join(
			tx.Table("key_requests").Where("id = ?", request).Update("state", Withdrawn).Error,
			tx.Record(id, "key.withdraw", request, map[string]any{"account": id}),
		)
	})
}

// Decide applies an operator's decision to a request, posts a mail to its person and returns the
// request. Declining needs a reason.
func (s *Store) Decide(ctx context.Context, actor, id string, decision Decide) (_ Request, err error) {
	if decision.State == Declined {
		if decision.Reason, err = account.Text("reason", decision.Reason); err != nil {
			return Request{}, err
		}
	}
	return accountdb.Result(ctx, s.db, func(tx *accountdb.Tx) (Request, error) {
		r, err := lockRequest(tx, id)
		if err != nil {
			return r, err
		}
		changed, err := decision.Apply(&r, actor, tx.Now)
		if err != nil || !changed {
			return r, err
		}
		return r, saveDecision(tx, r, true)
	})
}

func saveDecision(tx *accountdb.Tx, r Request, notify bool) error {
	detail := map[string]any{"account": r.Account}
	action, template, data := "key.approve", "key-request-approved", map[string]string{
		"use_case": r.UseCase, "link": tx.Mails.Page("/account/keys"),
	}
	if r.State == Declined {
		detail["reason"] = r.Reason
		action, template, data = "key.decline", "key-request-declined", map[string]string{
			"use_case": r.UseCase, "reason": r.Reason,
		}
	}
	err := errors.Join(
		tx.Select("State", "Reason", "DecidedAt", "DecidedBy").Updates(&r).Error,
		tx.Record(r.DecidedBy, action, r.ID, detail),
	)
	if err != nil || !notify {
		return err
	}
	return tx.Notify(r.Account, template, data)
}

// Collect creates the key of an approved request of the account, once, and records that the account
// accepts the terms of use.
func (s *Store) Collect(ctx context.Context, id, request string, terms account.Acceptance, stored Record) (Key, error) {
	key, err := accountdb.Result(ctx, s.db, func(tx *accountdb.Tx) (Key, error) {
		a, err := lockHolder(tx, id)
		if err != nil {
			return Key{}, err
		}
		r, err := lockOwnRequest(tx, id, request)
		switch {
		case err != nil:
			return Key{}, err
		case r.State != Approved:
			return Key{}, NotOpen(r.State)
		}
		if err := account.AcceptTerms(tx, a.ID, terms); err != nil {
			return Key{}, err
		}
		key := Key{ID: NewID(), Name: r.Name, UseCase: r.UseCase, ExpiresAt: tx.Now.Add(MaxLife)}
		if key, err = create(tx, a, key, stored); err != nil {
			return key, err
		}
		return key, errors.Join(
			tx.Touch(a.ID),
			tx.Table("key_requests").Where("id = ?", request).
				Updates(map[string]any{"state": Collected, "key_id": key.ID}).Error,
			tx.Record(id, "key.issue", key.ID, map[string]any{
				"account": id, "tier": key.TierAt(tx.Now), "useCase": key.UseCase, "expiresAt": key.ExpiresAt,
				"request": request, "test": r.Test,
			}))
	})
	return key, unlessUnknown(err)
}
