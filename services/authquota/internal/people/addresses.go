package people

import (
	"context"
	"errors"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/mail"
)

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
			endLinks(tx, l.Account, LinkReset, LinkLost), // these links went to the old address; only links that cancel something stay valid there
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
	err := s.db.WithContext(ctx).Limit(1).Find(&rows, "account_id = ? AND purpose IN ? AND used_at IS NULL AND expires_at > ?",
		accountID, []LinkPurpose{LinkNewAddress, LinkUnusable}, database.Micros(s.db.Now())).Error
	if err != nil || len(rows) == 0 {
		return Link{}, database.Outage(err)
	}
	return rows[0].toLink(), nil
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
