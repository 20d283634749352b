package authquota

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service"
	"opportunity.internal/pkg/setback"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/accountpages"
	"opportunity.internal/services/authquota/internal/courier"
	"opportunity.internal/services/authquota/internal/epochs"
	"opportunity.internal/services/authquota/internal/httpapi"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/keyusage"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/notices"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/plan"
)

// parts do the background work.
type parts struct {
	log      *slog.Logger
	db       *accountdb.DB
	notices  *notices.Store
	queries  *database.Breaker
	epochs   *epochs.Epochs
	counters *keyusage.Counters
	mails    *courier.Courier
	seller   *peer.Client           // nil if no plans are sold
	sealed   atomic.Pointer[string] // the fault that checkSealed found, or ""

	guard *setback.Guard

	pendingCancels prometheus.Gauge
}

func newParts(cfg Config, s settings, r *service.Runtime, client *redis.Client) (*parts, error) {
	p := &parts{log: r.Log, db: &accountdb.DB{
		DB: r.DB, Now: cfg.Now, Box: s.box, Posted: make(chan struct{}, 1),
		Mails: mail.Writer{PublicURL: cfg.PublicURL, Contact: cfg.Contact},
	}}
	p.sealed.Store(new(string))
	p.notices = notices.NewStore(p.db, s.tiers)
	p.queries = database.NewBreaker(cfg.ResponseTimeout)
	p.counters = keyusage.NewCounters(client, keyusage.NewStore(p.db))
	p.pendingCancels = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "authquota_cancels_pending",
		Help: "Closed accounts whose subscriptions billing has not cancelled yet; they may still be charged.",
	})
	r.Registry.MustRegister(p.pendingCancels, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "authquota_ledger_lag_seconds", Help: "Age of the ledger's copy of the counters.",
	}, func() float64 { return p.counters.Lag().Seconds() }))
	p.epochs = &epochs.Epochs{Redis: client, DB: p.db}
	p.guard = r.Guard("changes", func(ctx context.Context, _ *setback.Guard) error { return p.epochs.Poll(ctx) })
	p.epochs.Guard, p.db.Publisher = p.guard, p.epochs
	r.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "authquota_epoch_raises_pending",
		Help: "Account changes that are saved but not in effect yet, because Redis is unavailable.",
	}, p.epochs.Pending))
	var err error
	p.mails, err = courier.New(cfg.Mail, p.db, r.Log, r.Registry)
	return p, err
}

// available returns an error (503) if the database does not respond or is set back. Pages call it
// before any other query. During an outage of Redis they are served; no key is resolved.
func (p *parts) available(ctx context.Context) error {
	if err := p.responds(ctx); err != nil {
		return err
	}
	return p.guard.Err()
}

// responds returns an error (503) if the database does not respond.
func (p *parts) responds(ctx context.Context) error { return p.queries.Run(ctx, p.db.Ping) }

// operators returns a handler that rejects requests of operators while the database does not
// respond. Requests of gateways and billing are not checked: each has a timeout of its own.
func (p *parts) operators(next http.Handler, problems problem.Writer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/operator/") {
			if err := p.responds(r.Context()); err != nil {
				problems.Write(w, r, err)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// runTimeout bounds one run of a background loop.
const runTimeout = 10 * time.Second

// mailCheckInterval is the time between connections to the mail server that send nothing.
const mailCheckInterval = 5 * time.Minute

func (p *parts) addLoops(r *service.Runtime) {
	loop := func(name string, interval time.Duration, do func(context.Context) error) {
		r.Every(service.Loop{Name: name, Interval: interval, Timeout: runTimeout, Do: p.guard.UnlessSetBack(do)})
	}
	loop("cleanup", time.Hour, p.deleteExpired)
	loop("usage moves", keyusage.MoveInterval, func(ctx context.Context) error { return p.counters.DeliverMoves(ctx, "") })
	loop("request log", time.Minute, keyusage.NewStore(p.db).PruneRequests)
	r.Every(service.Loop{Name: "mail server", Interval: mailCheckInterval, Do: p.mails.Check})
	loop("sealing", time.Hour, p.reseal)
	// also while set back
	r.Every(service.Loop{Name: "ledger", Interval: keyusage.CopyInterval, Timeout: runTimeout, Do: p.counters.Copy})
	loop("notices", time.Minute, keys.NewStore(p.db).Remind)
	loop("usage notices", time.Minute, p.notices.NotifyUsage)
	loop("announcements", 5*time.Second, p.notices.PostAnnouncements)
	loop("plans", time.Minute, plan.NewStore(p.db).EndPlans)
	loop("closing", plan.CancelInterval, p.cancelClosed)
	loop("heartbeat", 10*time.Second, p.epochs.Alive)
	// no timeout: a server may take long
	r.Every(service.Loop{Name: "mails", Interval: courier.Interval, Wake: p.db.Posted,
		Do: p.guard.UnlessSetBack(p.mails.Deliver)})
}

func (p *parts) deleteExpired(ctx context.Context) error {
	return errors.Join(keyusage.NewStore(p.db).DeleteExpired(ctx), people.NewStore(p.db).
		DeleteExpired(ctx), p.notices.DeleteExpired(ctx))
}

func (p *parts) reseal(ctx context.Context) error {
	fault, err := "", checkSealed(ctx, p.db.DB, p.db.Box)
	if err != nil && !database.IsUnavailable(err) {
		fault = err.Error()
	}
	p.sealed.Store(&fault)
	return errors.Join(err, p.db.Reseal(ctx, sealedColumns()...))
}

func (p *parts) cancelClosed(ctx context.Context) error {
	n, err := plan.NewStore(p.db).CancelClosed(ctx, p.seller)
	if err == nil || n > 0 {
		p.pendingCancels.Set(float64(n))
	}
	return err
}

func (p *parts) copyLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := p.counters.Copy(ctx); err != nil {
		p.log.ErrorContext(ctx, "final counter copy failed", "error", err.Error())
	}
}

func newPages(cfg Config, s settings, p *parts, errors problem.Writer) (*accountpages.Pages, error) {
	return accountpages.New(accountpages.Config{
		PublicURL: cfg.PublicURL, Contact: cfg.Contact, MailDirectory: cfg.Mail.Directory(),
		TermsVersion: cmp.Or(cfg.TermsVersion, api.TermsVersion), Peppers: s.peppers, Tiers: s.tiers,
		AutoApprove: cfg.AutoApprove, ApproveTest: cfg.TestKeys, Errors: errors, Now: cfg.Now,
		DB: p.db, Billing: p.seller, Available: p.available, Epochs: p.epochs, Counters: p.counters,
	})
}

func newAPI(cfg Config, s settings, p *parts, errors problem.Writer, ready http.Handler) http.Handler {
	return httpapi.API{
		People: people.NewStore(p.db), Keys: keys.NewStore(p.db), Plans: plan.NewStore(p.db), Usage: keyusage.NewStore(p.db),
		Notices: p.notices, Epochs: p.epochs, Counters: p.counters,
		Tiers: s.tiers, Peppers: s.peppers, OlderKeys: s.older, Errors: errors, Now: cfg.Now,
		Shared: api.SharedSettings{
			Tiers: s.tiers.List(), Peppers: apikey.Fingerprints(s.peppers), OlderKeys: cfg.OlderKeys,
			TermsVersion: cfg.TermsVersion,
		},
	}.Handler(ready)
}

// split routes page paths to the account pages and all others to the API.
func split(account *accountpages.Pages, api http.Handler) http.Handler {
	shown := account.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if account.Under(r.URL.Path) {
			shown.ServeHTTP(w, r)
		} else {
			api.ServeHTTP(w, r)
		}
	})
}
