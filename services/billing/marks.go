package billing

import (
	"context"
	"errors"
	"time"

	"opportunity.internal/pkg/highwater"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/service"
)

// marks exchanges the high-water marks of the database with authquota, which keeps the newest one.
type marks struct {
	authquota *peer.Client
	keeper    highwater.Keeper
	guard     *highwater.Guard
}

// reportTimeout limits one report, in which authquota may be unresponsive.
const reportTimeout = 5 * time.Second

func newMarks(c *components, cfg Config) (*marks, error) {
	key, err := highwater.NewKey(peer.Billing, cfg.Tokens.Secrets()...)
	if err != nil {
		return nil, err
	}
	m := &marks{authquota: c.Peer(peer.Authquota, cfg.AuthquotaURL, cfg.Tokens)}
	m.keeper = highwater.Peer{Store: peer.Billing, Client: m.authquota}
	m.guard = c.Guard(highwater.Owner{Store: peer.Billing, Key: key, Has: c.store.HasChange, Newest: c.store.NewestChange}, m.keeper)
	c.Every(service.Loop{Name: "change report", Interval: time.Second, Timeout: reportTimeout, Do: func(ctx context.Context) error {
		return service.UnlessReported(m.report(ctx))
	}})
	return m, nil
}

// report gives authquota the newest mark, unless it has it.
func (m *marks) report(ctx context.Context) error { return m.guard.Report(ctx, m.keeper) }

// held reports whether the database is set back, so that nothing may be pushed. During an outage of authquota it is not: put fails then.
func (m *marks) held(ctx context.Context) bool { return errors.Is(m.report(ctx), highwater.ErrSetBack) }

// put sends an entitlement to authquota, which keeps the mark of its change before it has the entitlement. It fails unless authquota has
// the newest mark: the database may have been set back.
func (m *marks) put(ctx context.Context, path string, in, out any) error {
	if err := m.report(ctx); err != nil {
		return err
	}
	return m.authquota.Put(ctx, path, in, out)
}
