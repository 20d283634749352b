package store

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/link"
	"opportunity.internal/services/authquota/internal/mail"
)

// AskNewAddress keeps a link of the purpose link.NewAddress and posts one of two mails: fresh, which has the link, to an address that
// nobody has; known to one that somebody has. The address until now is told by another, with the link keep of the purpose
// link.OldAddress. Links that were sent before for this stop working.
func (s *Store) AskNewAddress(ctx context.Context, l, keep link.Fresh, fresh, known, told mail.Message) error {
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		person, err := byEmail(tx, l.Email)
		if err != nil {
			return err
		}
		message := fresh
		if person.AccountID != "" {
			l.Purpose, message = link.Nothing, known
		}
		return errors.Join(
			endAddressChange(tx, now, l.Account),
			keepLink(tx, l), keepLink(tx, keep),
			record(tx, now, l.Account, "person.address_change_asked", l.Account, map[string]any{"to": mail.Masked(l.Email)}),
			s.post(tx, now, message), s.post(tx, now, told))
	})
}

// ChangeAddress gives the account of a link of the purpose link.NewAddress its new address and tells the old one. It returns
// link.Gone where the link is used or somebody has the address by now.
func (s *Store) ChangeAddress(ctx context.Context, secret string) error {
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		l, err := useLink(tx, now, secret, link.NewAddress)
		if err != nil {
			return err
		}
		person, err := lockPerson(tx, l.Account)
		if problem.Of(err).Code == problem.NotFound {
			return link.Gone()
		}
		if err != nil {
			return err
		}
		err = tx.Model(&personRow{}).Where("account_id = ?", l.Account).Update("email", l.Email).Error
		if errors.Is(err, gorm.ErrDuplicatedKey) {
			return link.Gone()
		}
		if err != nil {
			return err
		}
		return errors.Join(
			endAddressChange(tx, now, l.Account),
			endLinks(tx, now, l.Account, link.Reset, link.Lost), // they went to the old address; what stops something works there still
			record(tx, now, l.Account, "person.address_change", l.Account,
				map[string]any{"from": mail.Masked(person.Email), "to": mail.Masked(l.Email)}),
			s.post(tx, now, mail.Message{
				To: person.Email, Template: "address-changed", Data: map[string]string{"to_hint": mail.Masked(l.Email)},
			}))
	})
}

// AddressChange is the change of an account's address that waits for its link; the zero link where none does. One to an address that
// somebody has is shown like any other.
func (s *Store) AddressChange(ctx context.Context, accountID string) (link.Link, error) {
	var rows []linkRow
	err := s.db.WithContext(ctx).Limit(1).Find(&rows, "account_id = ? AND purpose IN ? AND used_at IS NULL AND expires_at > ?",
		accountID, []link.Purpose{link.NewAddress, link.Nothing}, database.Micros(s.now())).Error
	if err != nil || len(rows) == 0 {
		return link.Link{}, database.Outage(err)
	}
	return rows[0].toLink(), nil
}

// CallOffAddressChange leaves an account its address, on behalf of its person.
func (s *Store) CallOffAddressChange(ctx context.Context, accountID string) error {
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error { return callOffAddressChange(tx, now, accountID) })
}

// KeepAddress does the same by a link of the purpose link.OldAddress.
func (s *Store) KeepAddress(ctx context.Context, secret string) error {
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		l, err := useLink(tx, now, secret, link.OldAddress)
		if err != nil {
			return err
		}
		return callOffAddressChange(tx, now, l.Account)
	})
}

func callOffAddressChange(tx *gorm.DB, now time.Time, accountID string) error {
	return errors.Join(
		endAddressChange(tx, now, accountID),
		record(tx, now, accountID, "person.address_change_off", accountID, map[string]any{}))
}
