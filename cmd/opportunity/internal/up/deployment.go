package up

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/desk"
	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/cmd/opportunity/internal/verbs"
	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/server"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/billing"
	"opportunity.internal/services/catalog"
	"opportunity.internal/services/gateway"
	"opportunity.internal/services/history"
)

// deployment configures the five services to reach each other. All their listeners open before the
// first service starts, so no service connects to a closed port.
type deployment struct {
	publicURL, adminURL                  string // of the gateway
	catalogURL, historyURL, authquotaURL string
	billingURL                           string
	operatorToken                        string
	dir                                  string // the data directory

	links     bool          // run link checks
	readNow   chan struct{} // starts one
	seeded    atomic.Bool   // the first start is complete
	gateway   gateway.Config
	catalog   catalog.Config
	history   history.Config
	authquota authquota.Config
	billing   billing.Config
	desk      *desk.Desk
}

func newDeployment(
	ctx context.Context, dir *dataDir, public, admin net.Listener, operations, redisURL string, log io.Writer,
) (*deployment, error) {
	d := &deployment{dir: dir.Path, publicURL: cmp.Or(strings.TrimSuffix(os.Getenv("OPPORTUNITY_PUBLIC_URL"), "/"),
		browsable(public))}
	var pepper, encryptionKey, signingKey string
	var errs []error
	for name, secret := range map[string]*string{
		adminapi.TokenFile: &d.operatorToken, "key-pepper": &pepper,
		verbs.EncryptionKeyFile: &encryptionKey, verbs.SigningKeyFile: &signingKey,
	} {
		var err error
		*secret, err = dir.Secret(name)
		errs = append(errs, err)
	}
	// Service ports of catalog, history, authquota and billing; operations ports of the gateway and of these.
	addresses, err := following(operations, 5)
	errs = append(errs, err)
	addresses = append(slices.Repeat([]string{"127.0.0.1:0"}, 4), addresses...)
	loopback := make([]net.Listener, len(addresses))
	for i, address := range addresses {
		var err error
		loopback[i], err = listen(ctx, address, "--operations-listen")
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	d.adminURL, d.catalogURL, d.historyURL = reachable(admin), reachable(loopback[0]), reachable(loopback[1])
	d.authquotaURL, d.billingURL = reachable(loopback[2]), reachable(loopback[3])

	common := map[string]string{
		"OPPORTUNITY_PUBLIC_URL":    d.publicURL,
		"OPPORTUNITY_TLS_CERT_FILE": "", // ignores that of the environment: the services listen on the loopback address
		"OPPORTUNITY_TLS_KEY_FILE":  "",
		"OPPORTUNITY_PEER_CA_FILE":  "",
		"OPPORTUNITY_OPERATOR_TOKENS": strings.TrimSuffix(d.operatorToken+","+os.Getenv("OPPORTUNITY_OPERATOR_TOKENS"),
			","),
		"OPPORTUNITY_KEY_PEPPERS":         pepper,
		"OPPORTUNITY_ENCRYPTION_KEYS":     encryptionKey,
		"OPPORTUNITY_REDIS_URL":           redisURL,
		"OPPORTUNITY_HISTORY_SIGNING_KEY": signingKey,
		"OPPORTUNITY_CATALOG_URL":         d.catalogURL,
		"OPPORTUNITY_HISTORY_URL":         d.historyURL,
		"OPPORTUNITY_AUTHQUOTA_URL":       d.authquotaURL,
		"OPPORTUNITY_BILLING_URL":         d.billingURL,
	}
	if err := d.load(dir, common); err != nil {
		return nil, err
	}
	d.attach(loopback, public, admin, log)
	return d, nil
}

// tokens derives the tokens of all pairs of services from a secret that is kept between starts:
// services authenticate their marks with keys made from them. It returns the settings of each
// service.
func tokens(secret string) map[string]map[string]string {
	sent, accepted := map[string][]string{}, map[string][]string{}
	for _, called := range []string{peer.Catalog, peer.History, peer.Authquota, peer.Billing} {
		for _, caller := range peer.CallersOf(called) {
			mac := hmac.New(sha256.New, []byte(secret))
			fmt.Fprintf(mac, "token of %s for %s", caller, called)
			token := hex.EncodeToString(mac.Sum(nil))
			sent[caller] = append(sent[caller], called+":"+token)
			accepted[called] = append(accepted[called], caller+":"+token)
		}
	}
	settings := map[string]map[string]string{}
	for service, list := range sent {
		settings[service] = map[string]string{
			"OPPORTUNITY_PEER_TOKENS":   strings.Join(list, ","),
			"OPPORTUNITY_CALLER_TOKENS": strings.Join(accepted[service], ","),
		}
	}
	return settings
}

// load loads the settings of all services. fixed overrides the environment.
func (d *deployment) load(dir *dataDir, fixed map[string]string) error {
	urls := map[string]string{}
	for _, name := range databases {
		var err error
		if urls[name], err = dir.Database(name); err != nil {
			return err
		}
	}
	secret, err := dir.Secret("peer-secret")
	if err != nil {
		return err
	}
	between := tokens(secret)
	settings := func(service string) func(string) (string, bool) {
		own := maps.Clone(fixed)
		maps.Copy(own, between[service])
		return lookup(own, urls[service], dir)
	}
	var invalid [6]error
	d.links, invalid[5] = linkChecksEnabled()
	d.catalog, invalid[0] = config.Load[catalog.Config](settings("catalog"))
	d.history, invalid[1] = config.Load[history.Config](settings("history"))
	d.authquota, invalid[2] = config.Load[authquota.Config](settings("authquota"))
	d.billing, invalid[3] = config.Load[billing.Config](settings("billing"))
	d.gateway, invalid[4] = config.Load[gateway.Config](settings("gateway"))
	return distinct(invalid[:])
}

// distinct joins errors, each once: several services have the same setting.
func distinct(errs []error) error {
	var all []error
	var add func(error)
	add = func(err error) {
		if several, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // only joined errors are split
			for _, e := range several.Unwrap() {
				add(e)
			}
			return
		}
		if err != nil && !slices.ContainsFunc(all, func(other error) bool { return other.Error() == err.Error() }) {
			all = append(all, err)
		}
	}
	for _, err := range errs {
		add(err)
	}
	return errors.Join(all...)
}

// attach sets what a service gets besides its settings: open listeners, the log, and the end of the
// first start.
func (d *deployment) attach(loopback []net.Listener, public, admin net.Listener, log io.Writer) {
	setListeners := func(c *server.Config, service, operations net.Listener) {
		c.Listener, c.OperationsListener = service, operations
	}
	setListeners(&d.gateway.Server, public, loopback[4])
	setListeners(&d.catalog.Server, loopback[0], loopback[5])
	setListeners(&d.history.Server, loopback[1], loopback[6])
	setListeners(&d.authquota.Server, loopback[2], loopback[7])
	setListeners(&d.billing.Server, loopback[3], loopback[8])
	d.gateway.AdminListener = admin
	if text := d.linksOff(); text != "" {
		d.gateway.Notes = []string{text}
	} else {
		d.readNow = make(chan struct{}, 1)
		d.history.ReadNow = func() {
			select {
			case d.readNow <- struct{}{}:
			default: // a run is about to start
			}
		}
	}
	d.gateway.Filled = func() error {
		if !d.seeded.Load() {
			return errors.New("the first start is not complete")
		}
		return nil
	}
	for _, out := range []*io.Writer{
		&d.catalog.Telemetry.LogOutput, &d.history.Telemetry.LogOutput, &d.authquota.Telemetry.LogOutput,
		&d.billing.Telemetry.LogOutput,
		&d.gateway.Telemetry.LogOutput,
	} {
		*out = log
	}
}

// lookup returns the lookup function for the settings of one service. Precedence: fixed, the
// environment, defaults.
func lookup(fixed map[string]string, databaseURL string, dir *dataDir) func(name string) (string, bool) {
	defaults := map[string]string{
		"OPPORTUNITY_AUTO_APPROVE": "true", // the operator of a laptop is also the one who requests keys
		"OPPORTUNITY_SMTP_URL":     (&url.URL{Scheme: "file", Path: dir.File("mail")}).String(),
		"OPPORTUNITY_MAIL_FROM":    "Opportunity Data API <no-reply@localhost>",

		"OPPORTUNITY_BILLING_PROCESSOR": billing.Sandbox,
	}
	return func(name string) (string, bool) {
		if name == "OPPORTUNITY_DATABASE_URL" {
			return databaseURL, true
		}
		if v, ok := fixed[name]; ok {
			return v, true
		}
		if v, ok := os.LookupEnv(name); ok {
			return v, true
		}
		v, ok := defaults[name]
		return v, ok
	}
}

// following returns the addresses with the port of address and the next ones, n in all. Port 0 is
// not changed.
func following(address string, n int) (all []string, err error) {
	host, text, err := net.SplitHostPort(address)
	port, invalid := strconv.Atoi(text)
	if err != nil || invalid != nil || port < 0 || port > 65536-n {
		return nil, flags.Usage("invalid --operations-listen %q: use HOST:PORT, such as 127.0.0.1:9180", address)
	}
	for i := range n {
		all = append(all, net.JoinHostPort(host, strconv.Itoa(port+min(port, 1)*i)))
	}
	return all, nil
}

// browsable returns the URL of the listener for a browser on this machine. It uses the name
// localhost, because over plain HTTP browsers accept secure cookies and passkeys only from
// localhost, and never accept passkeys from an IP address.
func browsable(l net.Listener) string {
	at, ok := l.Addr().(*net.TCPAddr)
	if ok && (at.IP.IsUnspecified() || at.IP.Equal(net.IPv4(127, 0, 0, 1)) || at.IP.Equal(net.IPv6loopback)) {
		return fmt.Sprintf("http://localhost:%d", at.Port)
	}
	return reachable(l)
}

func reachable(l net.Listener) string {
	at, ok := l.Addr().(*net.TCPAddr)
	if ok && at.IP.IsUnspecified() {
		return fmt.Sprintf("http://127.0.0.1:%d", at.Port)
	}
	return "http://" + l.Addr().String()
}

func (d *deployment) migrate(ctx context.Context) error {
	return errors.Join(catalog.Migrate(ctx, d.catalog), history.Migrate(ctx, d.history),
		authquota.Migrate(ctx, d.authquota),
		billing.Migrate(ctx, d.billing))
}

// stages returns the services in start order. They stop in reverse: first the gateway and the
// scheduled jobs, then catalog and history, which call each other, with billing, and last
// authquota, which records usage.
func (d *deployment) stages() stages {
	last := []job{
		{"gateway", func(ctx context.Context) error { return gateway.Run(ctx, d.gateway) }},
		{"curation desk", d.desk.Run},
		{"payment checks", func(ctx context.Context) error {
			return comparePayments(ctx, func(ctx context.Context) error {
				_, err := billing.Reconcile(ctx, d.billing)
				return err
			})
		}},
	}
	if d.links {
		last = append(last, job{"link checks", func(ctx context.Context) error {
			return checkLinks(ctx, d.history.Telemetry.LogOutput, d.readNow, func(ctx context.Context) error {
				_, err := history.CheckLinks(ctx, d.history)
				return err
			})
		}})
	}
	return stages{
		{{"authquota", func(ctx context.Context) error { return authquota.Run(ctx, d.authquota) }}},
		{
			{"catalog", func(ctx context.Context) error { return catalog.Run(ctx, d.catalog) }},
			{"history", func(ctx context.Context) error { return history.Run(ctx, d.history) }},
			{"billing", func(ctx context.Context) error { return billing.Run(ctx, d.billing) }},
		},
		last,
	}
}
