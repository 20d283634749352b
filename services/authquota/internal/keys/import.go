package keys

import (
	"context"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/dbtx"
)

// ImportKeys imports keys of another form: all of them, or none if the report has rejected lines. Each new key gets its own
// account. An existing key stays unchanged.
func (s *Store) ImportKeys(ctx context.Context, actor string, lines []Older, peppers [][]byte) (api.ImportReport, error) {
	var report api.ImportReport
	err := s.db.Change(ctx, func(tx *dbtx.Tx) error {
		report = api.ImportReport{Rejected: []api.RejectedLine{}}
		fresh := make([]Older, 0, len(lines))
		for _, k := range lines {
			var held int64
			if err := tx.Model(&keyRow{}).Where("digest IN ?", k.Digests(peppers)).Count(&held).Error; err != nil {
				return err
			}
			var wrong api.Problems
			switch k.StartsAt(&wrong, tx.Now); {
			case held > 0:
				report.Unchanged++
			case len(wrong) > 0:
				RejectLine(&report, k.Line, wrong)
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

func importKey(tx *dbtx.Tx, actor string, k Older, peppers [][]byte) error {
	a, err := holder(tx, actor, Order{Tier: k.Tier})
	if err != nil {
		return err
	}
	row := keyRow{
		ID: NewID(), AccountID: a.ID, Digest: k.Digests(peppers)[0], Name: k.Name, Prefix: k.Prefix, LastFour: k.LastFour,
		UseCase: k.UseCase, CreatedAt: database.Micros(tx.Now), ExpiresAt: database.Micros(k.ExpiresAt),
	}
	if err := tx.Create(&row).Error; err != nil {
		return err
	}
	tx.Changed("api_keys", "id", dbtx.One(row.ID))
	return tx.Record(actor, "key.import", row.ID, map[string]any{
		"account": a.ID, "tier": a.Granted, "useCase": k.UseCase, "expiresAt": k.ExpiresAt,
	})
}
