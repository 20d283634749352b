package people

import (
	"context"
	"errors"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/dbtx"
	"opportunity.internal/services/authquota/internal/mail"
)

// RequestSignUp stores a link.Confirm and posts one of two mails: fresh, which has the link, or known, if an account has the
// address.
func (s *Store) RequestSignUp(ctx context.Context, l FreshLink, fresh, known mail.Message) error {
	return s.db.Change(ctx, func(tx *dbtx.Tx) error {
		person, err := byEmail(tx.DB, l.Email)
		if err != nil {
			return err
		}
		message := fresh
		if person.AccountID != "" {
			l.Purpose, message = LinkUnusable, known
		}
		return errors.Join(saveLink(tx, l), tx.Post(message))
	})
}

// SignUp creates the account of a link and starts a halfway session. It returns link.Gone if the link was used or another
// account has the address.
func (s *Store) SignUp(ctx context.Context, secret, passwordHash string, entry Entry) (admitted Admitted, err error) {
	err = s.db.Change(ctx, func(tx *dbtx.Tx) error {
		l, err := useLink(tx, secret, LinkConfirm)
		if err != nil {
			return err
		}
		a, err := account.Create(tx, api.BaseTier)
		if err != nil {
			return err
		}
		err = tx.Create(&personRow{
			AccountID: a.ID, Email: l.Email, PasswordHash: passwordHash, CreatedAt: database.Micros(tx.Now),
		}).Error
		if errors.Is(err, gorm.ErrDuplicatedKey) {
			return LinkGone()
		}
		if err == nil {
			tx.Changed("people", "account_id", dbtx.One(a.ID))
			err = tx.Record(a.ID, "person.sign_up", a.ID, map[string]any{"tier": a.Granted})
		}
		if err != nil {
			return err
		}
		admitted, err = startSession(tx, a.ID, Halfway, SetUpLife, entry)
		return err
	})
	return admitted, err
}
