package people

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/mail"
)

// LinkPurpose is the single use of a link.
type LinkPurpose string

const (
	LinkConfirm    LinkPurpose = "confirm"     // create an account for an address that has none
	LinkReset      LinkPurpose = "reset"       // reset the password
	LinkNewAddress LinkPurpose = "new-address" // another address for an account
	LinkOldAddress LinkPurpose = "old-address" // the change to another address is called off
	LinkLost       LinkPurpose = "lost"        // start the waiting period for a new authenticator
	LinkKeep       LinkPurpose = "keep"        // cancel that waiting period and keep the authenticator
	LinkUnusable   LinkPurpose = "none"        // never usable; stored so that all addresses take the same time
)

// ResetWait is the time between the request for a new authenticator and the removal of the old one,
// during which its owner can cancel.
const ResetWait = 72 * time.Hour

// OperatorResetWait is the time between an operator's decision that an authenticator is lost and
// its
// removal. No operator can shorten it.
const OperatorResetWait = 24 * time.Hour

var linkLives = map[LinkPurpose]time.Duration{
	LinkConfirm: 24 * time.Hour, LinkReset: time.Hour, LinkNewAddress: 24 * time.Hour, LinkOldAddress: 24 * time.Hour,
	LinkLost: 24 * time.Hour, LinkKeep: ResetWait,
}

// Link is a link that was sent.
type Link struct {
	Purpose   LinkPurpose
	Account   string `gorm:"column:account_id;serializer:column"` // empty if the account does not exist yet
	Email     string
	ExpiresAt time.Time `gorm:"serializer:column"`
}

// FreshLink is a new link with its secret. Only HashSecret of the secret is stored.
type FreshLink struct {
	Link

	Secret string
}

// NewLink returns a new link.
func NewLink(purpose LinkPurpose, account, email string, now time.Time) FreshLink {
	return FreshLink{Link{purpose, account, email, now.Add(linkLives[purpose])}, NewSecret()}
}

// RequestedAt returns when the link was created.
func (l Link) RequestedAt() time.Time { return l.ExpiresAt.Add(-linkLives[l.Purpose]) }

// LinkGone returns the error for a link that has expired, was used or never existed.
func LinkGone() *problem.Error {
	return problem.New(problem.NotFound, "This link has expired or was already used. Request a new one.")
}

type linkRow struct {
	Link `gorm:"embedded"`

	TokenHash string `gorm:"primaryKey"`
	UsedAt    *int64
}

func (linkRow) TableName() string { return "links" }

func saveLink(tx *accountdb.Tx, l FreshLink) error {
	return tx.Create(&linkRow{Link: l.Link, TokenHash: HashSecret(l.Secret)}).Error
}

const usable = "token_hash = ? AND purpose = ? AND used_at IS NULL AND expires_at > ?"

// Link returns the valid link with this secret, or LinkGone.
func (s *Store) Link(ctx context.Context, secret string, purpose LinkPurpose) (Link, error) {
	var row linkRow
	err := s.db.WithContext(ctx).Take(&row, usable, HashSecret(secret), string(purpose), database.Micros(s.db.Now())).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return Link{}, LinkGone()
	}
	return row.Link, database.Outage(err)
}

// useLink marks a link as used, in one statement, so that only one of two concurrent requests
// succeeds.
func useLink(tx *accountdb.Tx, secret string, purpose LinkPurpose) (Link, error) {
	var rows []linkRow
	err := tx.Raw("UPDATE links SET used_at = ? WHERE "+usable+" RETURNING *",
		database.Micros(tx.Now), HashSecret(secret), string(purpose), database.Micros(tx.Now)).Scan(&rows).Error
	if err == nil && len(rows) == 0 {
		err = LinkGone()
	}
	if err != nil {
		return Link{}, err
	}
	return rows[0].Link, tx.Remember(rows[0].Account)
}

// endAddressChange cancels the pending address change of an account, if any. It is called when the
// password changes or all sessions end, because the change may have been requested by an intruder.
func endAddressChange(tx *accountdb.Tx, accountID string) error {
	return endLinks(tx, accountID, LinkNewAddress, LinkOldAddress, LinkUnusable)
}

func endLinks(tx *accountdb.Tx, accountID string, purposes ...LinkPurpose) error {
	ended := tx.Table("links").Where("account_id = ? AND purpose IN ? AND used_at IS NULL", accountID, purposes).
		Update("used_at", database.Micros(tx.Now))
	if ended.Error != nil || ended.RowsAffected == 0 {
		return ended.Error
	}
	return tx.Remember(accountID)
}

// RequestAddressChange stores a LinkNewAddress and posts one of two mails to the new address:
// fresh, which has the link, or known, if another account has the address. It posts notice, with
// the LinkOldAddress keep, to the current address. Earlier links for an address change stop
// working.
func (s *Store) RequestAddressChange(ctx context.Context, l, keep FreshLink, fresh, known, notice mail.Message) error {
	return s.db.Change(ctx, func(tx *accountdb.Tx) error {
		person, err := byEmail(tx.DB, l.Email)
		if err != nil {
			return err
		}
		message := fresh
		if person.AccountID != "" {
			l.Purpose, message = LinkUnusable, known
		}
		return errors.Join(
			endAddressChange(tx, l.Account),
			saveLink(tx, l), saveLink(tx, keep),
			tx.Record(l.Account, "person.address_change_asked", l.Account, map[string]any{"to": mail.Masked(l.Email)}),
			tx.Post(message), tx.Post(notice))
	})
}

// ChangeAddress sets the new address of a LinkNewAddress and notifies the old one. It returns
// LinkGone if the link was used or another account has the address.
func (s *Store) ChangeAddress(ctx context.Context, secret string) error {
	return s.db.Change(ctx, func(tx *accountdb.Tx) error {
		l, err := useLink(tx, secret, LinkNewAddress)
		if err != nil {
			return err
		}
		person, err := lockPerson(tx, l.Account)
		if problem.Of(err).Code == problem.NotFound {
			return LinkGone()
		}
		if err != nil {
			return err
		}
		err = tx.Model(&personRow{}).Where("account_id = ?", l.Account).Update("email", l.Email).Error
		if errors.Is(err, gorm.ErrDuplicatedKey) {
			return LinkGone()
		}
		if err != nil {
			return err
		}
		return errors.Join(
			endAddressChange(tx, l.Account),
			// these links went to the old address; only links that cancel something stay valid there
			endLinks(tx, l.Account, LinkReset, LinkLost),
			tx.Record(l.Account, "person.address_change", l.Account,
				map[string]any{"from": mail.Masked(person.Email), "to": mail.Masked(l.Email)}),
			tx.Post(mail.Message{
				To: person.Email, Template: "address-changed", Data: map[string]string{"to_hint": mail.Masked(l.Email)},
			}))
	})
}

// AddressChange returns the pending address change of an account, or the zero Link. A change to an
// address that another account has looks the same.
func (s *Store) AddressChange(ctx context.Context, accountID string) (Link, error) {
	var rows []linkRow
	err := s.db.WithContext(ctx).Limit(1).
		Find(&rows, "account_id = ? AND purpose IN ? AND used_at IS NULL AND expires_at > ?",
			accountID, []LinkPurpose{LinkNewAddress, LinkUnusable}, database.Micros(s.db.Now())).Error
	if err != nil || len(rows) == 0 {
		return Link{}, database.Outage(err)
	}
	return rows[0].Link, nil
}

// CancelAddressChange cancels the pending address change on behalf of the account's person.
func (s *Store) CancelAddressChange(ctx context.Context, accountID string) error {
	return s.db.Change(ctx, func(tx *accountdb.Tx) error { return callOffAddressChange(tx, accountID) })
}

// KeepAddress cancels the pending address change by a LinkOldAddress.
func (s *Store) KeepAddress(ctx context.Context, secret string) error {
	return s.db.Change(ctx, func(tx *accountdb.Tx) error {
		l, err := useLink(tx, secret, LinkOldAddress)
		if err != nil {
			return err
		}
		return callOffAddressChange(tx, l.Account)
	})
}

func callOffAddressChange(tx *accountdb.Tx, accountID string) error {
	return errors.Join(
		endAddressChange(tx, accountID),
		tx.Record(accountID, "person.address_change_off", accountID, map[string]any{}))
}
