package keys

import (
	"context"
	"errors"

	"opportunity.internal/services/authquota/internal/dbtx"
)

// Decide applies an operator's decision to a request, posts a mail to its person and returns the request.
func (s *Store) Decide(ctx context.Context, actor, id string, decision Decide) (Request, error) {
	var decided Request
	err := s.db.Change(ctx, func(tx *dbtx.Tx) error {
		row, err := lockRequest(tx, id)
		if err != nil {
			return err
		}
		decided = row.toRequest()
		changed, err := decision.Apply(&decided, actor, tx.Now)
		if err != nil || !changed {
			return err
		}
		return saveDecision(tx, decided, true)
	})
	return decided, err
}

// saveDecision stores a decision with its audit entry and, if notify is set, a mail.
func saveDecision(tx *dbtx.Tx, r Request, notify bool) error {
	detail := map[string]any{"account": r.Account}
	action, template, data := "key.approve", "key-request-approved", map[string]string{"use_case": r.UseCase, "link": tx.Mails.Page("/account/keys")}
	if r.State == Declined {
		detail["reason"] = r.Reason
		action, template, data = "key.decline", "key-request-declined", map[string]string{"use_case": r.UseCase, "reason": r.Reason}
	}
	tx.Changed("key_requests", "id", dbtx.One(r.ID), "state", "reason", "decided_at", "decided_by")
	err := errors.Join(
		tx.Model(&requestRow{}).Where("id = ?", r.ID).Updates(map[string]any{
			"state": r.State, "reason": r.Reason, "decided_at": dbtx.Micros(r.DecidedAt), "decided_by": r.DecidedBy,
		}).Error,
		tx.Record(r.DecidedBy, action, r.ID, detail),
	)
	if err != nil || !notify {
		return err
	}
	return tx.Notify(r.Account, template, data)
}
