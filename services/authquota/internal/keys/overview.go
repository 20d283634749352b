package keys

import (
	"context"
	"time"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/accountdb"
)

// Overview is the summary on the home page of the account.
type Overview struct {
	Active   int        // active keys without a successor
	Expiring *time.Time // the earliest expiry of these
	Pending  int        // undecided requests
	Ready    int        // approved requests whose keys were not collected yet
	Called   bool       // whether any key of the account was ever used
}

// InUse returns the number of MaxActive keys in use, pending requests included.
func (o Overview) InUse() int { return o.Active + o.Pending + o.Ready }

// Overview returns the summary for the home page of the account.
func (s *Store) Overview(ctx context.Context, id string) (Overview, error) {
	now := database.Micros(s.db.Now())
	var row struct {
		Active, Pending, Ready, Used int
		Expiring                     *int64
	}
	err := s.db.WithContext(ctx).Raw(`SELECT k.active, k.expiring, k.used, r.pending, r.ready FROM
		(SELECT COUNT(CASE WHEN works THEN 1 END) AS active, MIN(CASE WHEN works THEN expires_at END) AS expiring,
			COUNT(last_used_at) AS used
			FROM (SELECT expires_at, last_used_at, revoked_at IS NULL AND replaced_at IS NULL AND expires_at > ? AS works
				FROM api_keys WHERE account_id = ?) AS keys) AS k,
		(SELECT COUNT(CASE state WHEN 'asked' THEN 1 END) AS pending, COUNT(CASE state WHEN 'approved' THEN 1 END) AS ready
			FROM key_requests WHERE account_id = ?) AS r`, now, id, id).Scan(&row).Error
	return Overview{
		Active: row.Active, Expiring: accountdb.Instant(row.Expiring), Pending: row.Pending, Ready: row.Ready, Called: row.Used > 0,
	}, database.Outage(err)
}
