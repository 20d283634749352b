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
// its removal. No operator can shorten it.
const OperatorResetWait = 24 * time.Hour

// linkKinds has the page that a link opens, and the time for which the link works.
var linkKinds = map[LinkPurpose]struct {
	page string
	life time.Duration
}{
	LinkConfirm:    {"/account/confirm", 24 * time.Hour},
	LinkReset:      {"/account/reset", time.Hour},
	LinkNewAddress: {"/account/new-address", 24 * time.Hour},
	LinkOldAddress: {"/account/old-address", 24 * time.Hour},
	LinkLost:       {"/account/lost-authenticator/confirm", 24 * time.Hour},
	LinkKeep:       {"/account/lost-authenticator/cancel", ResetWait},
	LinkUnusable:   {"", 24 * time.Hour},
}

// Page returns the path of the page that a link of this purpose opens.
func (p LinkPurpose) Page() string { return linkKinds[p].page }

// Link is a link that was sent.
type Link struct {
	Purpose   LinkPurpose
	Account   string `gorm:"column:account_id;serializer:column"` // empty if the account does not exist yet
	Email     string
	ExpiresAt time.Time `gorm:"serializer:column"`
}

// RequestedAt returns when the link was created.
func (l Link) RequestedAt() time.Time { return l.ExpiresAt.Add(-linkKinds[l.Purpose].life) }

var errLinkGone = problem.New(problem.NotFound,
	"This link has expired or was already used. Request a new one.")

type linkRow struct {
	Link `gorm:"embedded"`

	TokenHash string `gorm:"primaryKey"`
	UsedAt    *int64
}

func (linkRow) TableName() string { return "links" }

// newLink stores a link to an account and an address, and returns its URL. Only the hash of its
// secret is stored.
func newLink(tx *accountdb.Tx, purpose LinkPurpose, accountID, email string) (address string, err error) {
	secret := NewSecret()
	row := linkRow{
		Link:      Link{purpose, accountID, email, tx.Now.Add(linkKinds[purpose].life)},
		TokenHash: HashSecret(secret),
	}
	return tx.Mails.Page(purpose.Page() + "?token=" + secret), tx.Create(&row).Error
}

// mailNewAddress posts a mail with a new link to an address that is to become that of an account.
// If an account has it already, the mail says so, and the link is unusable.
func mailNewAddress(tx *accountdb.Tx, purpose LinkPurpose, accountID, email, template string) error {
	person, err := byEmail(tx.DB, email)
	if err != nil {
		return err
	}
	known := person.AccountID != ""
	if known {
		purpose = LinkUnusable
	}
	link, err := newLink(tx, purpose, accountID, email)
	if err != nil {
		return err
	}
	if known {
		template, link = "already-have-account", tx.Mails.Page("/account/sign-in")
	}
	return tx.Post(mail.Message{To: email, Template: template, Data: map[string]string{"link": link}})
}

const usable = "token_hash = ? AND purpose = ? AND used_at IS NULL AND expires_at > ?"

// Link returns the link with this secret. It returns not_found if the link has expired, was used or
// never existed.
func (s *Store) Link(ctx context.Context, secret string, purpose LinkPurpose) (Link, error) {
	var row linkRow
	err := s.db.WithContext(ctx).Take(&row, usable, HashSecret(secret), string(purpose), database.Micros(s.db.Now())).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return Link{}, errLinkGone
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
		err = errLinkGone
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

// RequestAddressChange posts a mail with a LinkNewAddress to the new address, or one that says that
// another account has it, and a mail with a LinkOldAddress to the current one. Earlier links for an
// address change stop working.
func (s *Store) RequestAddressChange(ctx context.Context, of Person, email string) error {
	return s.db.Change(ctx, func(tx *accountdb.Tx) error {
		if err := endAddressChange(tx, of.Account); err != nil {
			return err
		}
		cancel, err := newLink(tx, LinkOldAddress, of.Account, of.Email)
		return errors.Join(err,
			mailNewAddress(tx, LinkNewAddress, of.Account, email, "new-address"),
			tx.Record(of.Account, "person.address_change_asked", of.Account, map[string]any{"to": mail.Masked(email)}),
			tx.Post(mail.Message{To: of.Email, Template: "address-change-asked", Data: map[string]string{
				"to_hint": mail.Masked(email), "cancel": cancel,
			}}))
	})
}

// ChangeAddress sets the new address of a LinkNewAddress and notifies the old one. It returns
// an error if the link was used or another account has the address.
func (s *Store) ChangeAddress(ctx context.Context, secret string) error {
	return s.db.Change(ctx, func(tx *accountdb.Tx) error {
		l, err := useLink(tx, secret, LinkNewAddress)
		if err != nil {
			return err
		}
		person, err := lockPerson(tx, l.Account)
		if problem.Of(err).Code == problem.NotFound {
			return errLinkGone
		}
		if err != nil {
			return err
		}
		err = tx.Model(&personRow{}).Where("account_id = ?", l.Account).Update("email", l.Email).Error
		if errors.Is(err, gorm.ErrDuplicatedKey) {
			return errLinkGone
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
