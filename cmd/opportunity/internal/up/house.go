package up

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"sync/atomic"

	"opportunity.internal/cmd/opportunity/internal/operator"
	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/server"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/billing"
	"opportunity.internal/services/catalog"
	"opportunity.internal/services/gateway"
	"opportunity.internal/services/history"
)

// house is the five services, configured to find each other: all their listeners are open before one of them starts, so none
// ever meets a closed port.
type house struct {
	publicURL, adminURL                  string // of the gateway
	catalogURL, historyURL, authquotaURL string
	billingURL                           string
	operatorToken, internalToken         string

	links     bool        // links are checked by a timer
	filled    atomic.Bool // what the first start brings in is there
	gateway   gateway.Config
	catalog   catalog.Config
	history   history.Config
	authquota authquota.Config
	billing   billing.Config
}

func newHouse(ctx context.Context, dir *dataDir, public, admin net.Listener, redisURL string, log io.Writer) (*house, error) {
	h := &house{publicURL: cmp.Or(strings.TrimSuffix(os.Getenv("OPPORTUNITY_PUBLIC_URL"), "/"), browsable(public))}
	var pepper, encryptionKey, signingKey string
	var errs []error
	for name, secret := range map[string]*string{
		operator.TokenFile: &h.operatorToken, "internal-token": &h.internalToken, "key-pepper": &pepper,
		"encryption-key": &encryptionKey, operator.SigningKeyFile: &signingKey,
	} {
		var err error
		*secret, err = dir.secret(name)
		errs = append(errs, err)
	}
	inner := make([]net.Listener, 9) // the service ports of four, then the operations ports of all five
	for i := range inner {
		var err error
		inner[i], err = listen(ctx, "127.0.0.1:0", "")
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	h.adminURL, h.catalogURL, h.historyURL = reachable(admin), reachable(inner[0]), reachable(inner[1])
	h.authquotaURL, h.billingURL = reachable(inner[2]), reachable(inner[3])

	common := map[string]string{
		"OPPORTUNITY_PUBLIC_URL":          h.publicURL,
		"OPPORTUNITY_INTERNAL_TOKENS":     h.internalToken,
		"OPPORTUNITY_OPERATOR_TOKENS":     h.operatorToken,
		"OPPORTUNITY_KEY_PEPPERS":         pepper,
		"OPPORTUNITY_ENCRYPTION_KEYS":     encryptionKey,
		"OPPORTUNITY_REDIS_URL":           redisURL,
		"OPPORTUNITY_HISTORY_SIGNING_KEY": signingKey,
		"OPPORTUNITY_CATALOG_URL":         h.catalogURL,
		"OPPORTUNITY_HISTORY_URL":         h.historyURL,
		"OPPORTUNITY_AUTHQUOTA_URL":       h.authquotaURL,
		"OPPORTUNITY_BILLING_URL":         h.billingURL,
	}
	// what the environment may decide otherwise
	preset := map[string]string{
		"OPPORTUNITY_AUTO_APPROVE": "true", // the operator of a laptop is who asks
		"OPPORTUNITY_SMTP_URL":     (&url.URL{Scheme: "file", Path: dir.file("mail")}).String(),
		"OPPORTUNITY_MAIL_FROM":    "Opportunity Data API <no-reply@localhost>",

		"OPPORTUNITY_BILLING_PROCESSOR": billing.Sandbox,
	}
	// settings are those of one service: what `up` decides, then the environment.
	var err error
	databases := map[string]string{}
	for _, name := range []string{"catalog", "history", "authquota", "billing"} {
		if databases[name], err = dir.database(name); err != nil {
			return nil, err
		}
	}
	settings := func(database string) func(string) (string, bool) {
		return func(name string) (string, bool) {
			if name == "OPPORTUNITY_DATABASE_URL" {
				return databases[database], true
			}
			if v, ok := common[name]; ok {
				return v, true
			}
			if v, ok := os.LookupEnv(name); ok {
				return v, true
			}
			v, ok := preset[name]
			return v, ok
		}
	}
	var wrong [6]error
	h.links, wrong[5] = linksWanted()
	h.catalog, wrong[0] = config.Load[catalog.Config](settings("catalog"))
	h.history, wrong[1] = config.Load[history.Config](settings("history"))
	h.authquota, wrong[2] = config.Load[authquota.Config](settings("authquota"))
	h.billing, wrong[3] = config.Load[billing.Config](settings("billing"))
	h.gateway, wrong[4] = config.Load[gateway.Config](settings(""))
	if err := errors.Join(wrong[:]...); err != nil {
		return nil, err
	}
	give := func(c *server.Config, service, operations net.Listener) {
		c.Listener, c.OperationsListener = service, operations
	}
	give(&h.catalog.Server, inner[0], inner[4])
	give(&h.history.Server, inner[1], inner[5])
	give(&h.authquota.Server, inner[2], inner[6])
	give(&h.billing.Server, inner[3], inner[7])
	give(&h.gateway.Server, public, inner[8])
	h.gateway.AdminListener = admin
	h.gateway.Filled = func() error {
		if !h.filled.Load() {
			return errors.New("the first start is not complete")
		}
		return nil
	}
	for _, out := range []*io.Writer{
		&h.catalog.Telemetry.LogOutput, &h.history.Telemetry.LogOutput, &h.authquota.Telemetry.LogOutput, &h.billing.Telemetry.LogOutput,
		&h.gateway.Telemetry.LogOutput,
	} {
		*out = log
	}
	return h, nil
}

// browsable is the URL by which a browser on this machine uses the listener. Over plain HTTP browsers take secure cookies and
// passkeys from localhost alone, and passkeys from no bare address at all.
func browsable(l net.Listener) string {
	at, ok := l.Addr().(*net.TCPAddr)
	if ok && (at.IP.IsUnspecified() || at.IP.Equal(net.IPv4(127, 0, 0, 1)) || at.IP.Equal(net.IPv6loopback)) {
		return fmt.Sprintf("http://localhost:%d", at.Port)
	}
	return reachable(l)
}

// reachable is the URL by which this machine reaches the listener.
func reachable(l net.Listener) string {
	at, ok := l.Addr().(*net.TCPAddr)
	if ok && at.IP.IsUnspecified() {
		return fmt.Sprintf("http://127.0.0.1:%d", at.Port)
	}
	return "http://" + l.Addr().String()
}

func (h *house) migrate(ctx context.Context) error {
	return errors.Join(catalog.Migrate(ctx, h.catalog), history.Migrate(ctx, h.history), authquota.Migrate(ctx, h.authquota),
		billing.Migrate(ctx, h.billing))
}

// stages: the gateway drains first, and with it what timers begin; catalog and history, which ask each other, and billing together; the
// ledger last.
func (h *house) stages() stages {
	last := []service{
		{"gateway", func(ctx context.Context) error { return gateway.Run(ctx, h.gateway) }},
		{"payment checks", func(ctx context.Context) error {
			return comparePayments(ctx, func(ctx context.Context) error {
				_, err := billing.Reconcile(ctx, h.billing)
				return err
			})
		}},
	}
	if h.links {
		last = append(last, service{"link checks", func(ctx context.Context) error {
			return checkLinks(ctx, h.history.Telemetry.LogOutput, func(ctx context.Context) error {
				_, err := history.CheckLinks(ctx, h.history)
				return err
			})
		}})
	}
	return stages{
		{{"authquota", func(ctx context.Context) error { return authquota.Run(ctx, h.authquota) }}},
		{
			{"catalog", func(ctx context.Context) error { return catalog.Run(ctx, h.catalog) }},
			{"history", func(ctx context.Context) error { return history.Run(ctx, h.history) }},
			{"billing", func(ctx context.Context) error { return billing.Run(ctx, h.billing) }},
		},
		last,
	}
}
