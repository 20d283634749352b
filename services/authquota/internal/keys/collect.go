package keys

import (
	"context"
	"errors"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/dbtx"
)

// Collect creates the key of an approved request of the account, once, and records that the account accepts the terms of use. If the change is
// saved but fails, the request can be collected again.
func (s *Store) Collect(ctx context.Context, id, request string, terms account.Acceptance, stored Record) (Key, error) {
	var key Key
	err := s.db.Change(ctx, func(tx *dbtx.Tx) error {
		a, err := lockHolder(tx, id)
		if err != nil {
			return err
		}
		req, err := lockRequest(tx, request)
		if err == nil && req.AccountID != id {
			err = RequestNotFound()
		}
		if err != nil {
			return err
		}
		if req.State != string(Approved) {
			return NotOpen(RequestState(req.State))
		}
		if err := account.AcceptTerms(tx, a.ID, terms); err != nil {
			return err
		}
		row := keyRow{
			ID: NewID(), AccountID: a.ID, Digest: stored.Digest, Name: req.Name, Prefix: stored.Prefix, LastFour: stored.LastFour,
			UseCase: req.UseCase, CreatedAt: database.Micros(tx.Now), ExpiresAt: database.Micros(tx.Now.Add(MaxLife)),
		}
		key = keyOf(a, row)
		if err := tx.Create(&row).Error; err != nil {
			return err
		}
		tx.Changed("api_keys", "id", dbtx.One(row.ID))
		tx.Changed("key_requests", "id", dbtx.One(request), "state", "key_id")
		return errors.Join(
			tx.Model(&requestRow{}).Where("id = ?", request).Updates(map[string]any{"state": Collected, "key_id": key.ID}).Error,
			tx.Record(id, "key.issue", key.ID, map[string]any{
				"account": id, "tier": key.TierAt(tx.Now), "useCase": key.UseCase, "expiresAt": key.ExpiresAt, "request": request, "test": req.Test,
			}),
		)
	})
	if err != nil {
		return key, s.revokeUnshown(ctx, id, key.ID, err, func(tx *dbtx.Tx) error {
			tx.Changed("key_requests", "id", dbtx.One(request), "state", "key_id")
			return tx.Model(&requestRow{}).Where("id = ?", request).Updates(map[string]any{"state": Approved, "key_id": nil}).Error
		})
	}
	return key, nil
}
