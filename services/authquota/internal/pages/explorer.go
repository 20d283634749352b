package pages

import (
	"context"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/keys"
)

// ExplorerKeys reads the keys of a person's account. Keys of other accounts are not_found.
type ExplorerKeys interface {
	OwnKeys(ctx context.Context, accountID string) ([]keys.Key, error)
	// ResolveOwn returns a key, and whether the account is suspended.
	ResolveOwn(ctx context.Context, accountID, key string) (own keys.Key, suspended bool, err error)
}

// Epochs reads the epochs of accounts.
type Epochs interface {
	Read(ctx context.Context, accountID string) (int64, error)
}

const explorerFormPath = api.ExplorerPath + "/:operation"

// active returns the keys with which the person can make calls, newest first.
func (p *Pages) active(ctx context.Context, accountID string, now time.Time) ([]keys.Key, error) {
	own, err := p.ExplorerKeys.OwnKeys(ctx, accountID)
	var active []keys.Key
	for i := len(own) - 1; i >= 0; i-- {
		if own[i].StatusAt(now) == keys.Active {
			active = append(active, own[i])
		}
	}
	return active, err
}
