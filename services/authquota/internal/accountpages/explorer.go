package accountpages

import (
	"context"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/keys"
)

const explorerFormPath = api.ExplorerPath + "/:operation"

// active returns the keys with which the person can make calls, newest first.
func (p *Pages) active(ctx context.Context, accountID string, now time.Time) ([]keys.Key, error) {
	own, err := p.Keys.OwnKeys(ctx, accountID)
	var active []keys.Key
	for i := len(own) - 1; i >= 0; i-- {
		if own[i].StatusAt(now) == keys.Active {
			active = append(active, own[i])
		}
	}
	return active, err
}
