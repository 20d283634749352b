package store

import (
	"context"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/dbtx"
)

// ImportKeys imports keys of another form: all of them, or none if the report has rejected lines. Each new key gets its own
// account. An existing key stays unchanged.
func (s *Store) ImportKeys(ctx context.Context, actor string, keys []account.OlderKey, peppers [][]byte) (api.ImportReport, error) {
	var report api.ImportReport
	err := s.db.Change(ctx, func(tx *dbtx.Tx) error {
		report = api.ImportReport{Rejected: []api.RejectedLine{}}
		fresh := make([]account.OlderKey, 0, len(keys))
		for _, k := range keys {
			var held int64
			if err := tx.Model(&keyRow{}).Where("digest IN ?", k.Digests(peppers)).Count(&held).Error; err != nil {
				return err
			}
			var wrong api.Problems
			switch k.StartsAt(&wrong, tx.Now); {
			case held > 0:
				report.Unchanged++
			case len(wrong) > 0:
				account.RejectLine(&report, k.Line, wrong)
			default:
				fresh = append(fresh, k)
			}
		}
		if len(report.Rejected) > 0 {
			report.Unchanged = 0
			return nil
		}
		report.Applied, report.Created = true, len(fresh)
		for _, k := range fresh {
			if err := importKey(tx, actor, k, peppers); err != nil {
				return err
			}
		}
		return nil
	})
	return report, err
}

func importKey(tx *dbtx.Tx, actor string, k account.OlderKey, peppers [][]byte) error {
	a, err := holder(tx, actor, account.Order{Tier: k.Tier})
	if err != nil {
		return err
	}
	row := keyRow{
		ID: account.NewKeyID(), AccountID: a.ID, Digest: k.Digests(peppers)[0], Name: k.Name, Prefix: k.Prefix, LastFour: k.LastFour,
		UseCase: k.UseCase, CreatedAt: database.Micros(tx.Now), ExpiresAt: database.Micros(k.ExpiresAt),
	}
	if err := tx.Create(&row).Error; err != nil {
		return err
	}
	return tx.Record(actor, "key.import", row.ID, map[string]any{
		"account": a.ID, "tier": a.Granted, "useCase": k.UseCase, "expiresAt": k.ExpiresAt,
	})
}
