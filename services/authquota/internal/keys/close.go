package keys

import (
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/dbtx"
)

// EndAll revokes all keys of an account that is being closed and withdraws its open requests. It returns the number of keys.
func EndAll(tx *dbtx.Tx, accountID string) (int, error) {
	var rows []keyRow
	err := tx.Model(&rows).Clauses(clause.Returning{Columns: []clause.Column{{Name: "id"}}}).
		Where("account_id = ? AND revoked_at IS NULL AND expires_at > ?", accountID, database.Micros(tx.Now)).
		Update("revoked_at", database.Micros(tx.Now)).Error
	if err != nil {
		return 0, err
	}
	tx.Changed("api_keys", "id", ids(rows), "revoked_at")
	for _, k := range rows {
		if err := tx.Record(accountID, "key.revoke", k.ID, map[string]any{"account": accountID}); err != nil {
			return 0, err
		}
	}
	tx.Changed("key_requests", "account_id", dbtx.One(accountID), "state", "decided_at")
	return len(rows), tx.Model(&requestRow{}).Where("account_id = ? AND state IN ?", accountID, openStates).
		Updates(map[string]any{"state": Withdrawn, "decided_at": database.Micros(tx.Now)}).Error
}

func ids(rows []keyRow) []string {
	all := make([]string, len(rows))
	for i, k := range rows {
		all[i] = k.ID
	}
	return all
}
