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
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/desk"
	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/cmd/opportunity/internal/verbs"
	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/service"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/billing"
	"opportunity.internal/services/catalog"
	"opportunity.internal/services/gateway"
	"opportunity.internal/services/history"
)

// deployment configures the five services to reach each other. All their listeners open before the
// first service starts, so no service connects to a closed port.
type deployment struct {
	dir                 *dataDir
	publicURL, adminURL string            // of the gateway
	urls                map[string]string // of the other services
	operatorToken       string
	log                 *slog.Logger

	links     bool          // run link checks
	readNow   chan struct{} // starts one
	seeded    atomic.Bool   // the first start is complete
	explained map[string]bool
	gateway   gateway.Config
	catalog   catalog.Config
	history   history.Config
	authquota authquota.Config
	billing   billing.Config
	desk      *desk.Desk
}

func newDeployment(
	ctx context.Context, dir *dataDir, public, admin net.Listener, operationsListen, redisURL string, log io.Writer,
) (*deployment, error) {
	d := &deployment{
		dir: dir, urls: map[string]string{}, explained: map[string]bool{},
		log: slog.New(slog.NewJSONHandler(log, nil)).With("service", "up"), readNow: make(chan struct{}, 1),
		publicURL: cmp.Or(strings.TrimSuffix(os.Getenv("OPPORTUNITY_PUBLIC_URL"), "/"), browsable(public)),
		adminURL:  reachable(admin),
	}
	var pepper, encryptionKey, signingKey string
	for name, secret := range map[string]*string{
		adminapi.TokenFile: &d.operatorToken, "key-pepper": &pepper,
		verbs.EncryptionKeyFile: &encryptionKey, verbs.SigningKeyFile: &signingKey,
	} {
		var err error
		if *secret, err = dir.Secret(name); err != nil {
			return nil, err
		}
	}
	fixed := map[string]string{
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
	}
	listeners, operations := map[string]net.Listener{"gateway": public}, map[string]net.Listener{}
	names := append([]string{"gateway"}, databases...)
	addresses, err := following(operationsListen, len(names))
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		if operations[name], err = listen(ctx, addresses[i], "--operations-listen"); err != nil {
			return nil, err
		}
		if name == "gateway" {
			continue
		}
		if listeners[name], err = listen(ctx, "127.0.0.1:0", ""); err != nil {
			return nil, err
		}
		d.urls[name] = reachable(listeners[name])
		fixed["OPPORTUNITY_"+strings.ToUpper(name)+"_URL"] = d.urls[name]
	}
	if err := d.load(fixed); err != nil {
		return nil, err
	}
	for name, of := range map[string]struct {
		server    *server.Config
		telemetry *telemetry.Config
	}{
		"gateway": {&d.gateway.Server, &d.gateway.Telemetry}, "catalog": {&d.catalog.Server, &d.catalog.Telemetry},
		"history": {&d.history.Server, &d.history.Telemetry}, "authquota": {&d.authquota.Server, &d.authquota.Telemetry},
		"billing": {&d.billing.Server, &d.billing.Telemetry},
	} {
		of.server.Listener, of.server.OperationsListener, of.telemetry.LogOutput = listeners[name], operations[name], log
	}
	d.gateway.AdminListener = admin
	d.gateway.Filled = func() error {
		if !d.seeded.Load() {
			return errors.New("the first start is not complete")
		}
		return nil
	}
	if text := d.linksOff(); text != "" {
		d.gateway.Notes = []string{text}
		return d, nil
	}
	d.history.ReadNow = func() {
		select {
		case d.readNow <- struct{}{}:
		default: // a run is about to start
		}
	}
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

// settings are those of `up` itself.
type settings struct {
	LinkChecks bool `env:"OPPORTUNITY_LINK_CHECKS" envDefault:"true"`
}

// load loads the settings of all services. fixed overrides the environment.
func (d *deployment) load(fixed map[string]string) error {
	secret, err := d.dir.Secret("peer-secret")
	if err != nil {
		return err
	}
	own := tokens(secret)
	for _, name := range databases {
		if own[name]["OPPORTUNITY_DATABASE_URL"], err = d.dir.Database(name); err != nil {
			return err
		}
	}
	of := func(service string) func(string) (string, bool) {
		maps.Copy(own[service], fixed)
		return lookup(own[service], d.dir)
	}
	var up settings
	var invalid [6]error
	up, invalid[0] = config.Load[settings](os.LookupEnv)
	d.catalog, invalid[1] = config.Load[catalog.Config](of("catalog"))
	d.history, invalid[2] = config.Load[history.Config](of("history"))
	d.authquota, invalid[3] = config.Load[authquota.Config](of("authquota"))
	d.billing, invalid[4] = config.Load[billing.Config](of("billing"))
	d.gateway, invalid[5] = config.Load[gateway.Config](of("gateway"))
	d.links = up.LinkChecks
	return distinct(invalid[:])
}

// distinct joins errors, each line once: several services have the same setting.
func distinct(errs []error) error {
	joined := errors.Join(errs...)
	if joined == nil {
		return nil
	}
	var lines []string
	for line := range strings.SplitSeq(joined.Error(), "\n") {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return errors.New(strings.Join(lines, "\n"))
}

// lookup returns the lookup function for the settings of one service. Precedence: fixed, the
// environment, defaults.
func lookup(fixed map[string]string, dir *dataDir) func(name string) (string, bool) {
	defaults := map[string]string{
		"OPPORTUNITY_AUTO_APPROVE": "true", // the operator of a laptop is also the one who requests keys
		"OPPORTUNITY_SMTP_URL":     (&url.URL{Scheme: "file", Path: dir.File("mail")}).String(),
		"OPPORTUNITY_MAIL_FROM":    "Opportunity Data API <no-reply@localhost>",

		"OPPORTUNITY_BILLING_PROCESSOR": billing.Sandbox,
	}
	return func(name string) (string, bool) {
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
		d.repeated(startTime, service.Loop{Name: "payment checks", Interval: 24 * time.Hour,
			Do: func(ctx context.Context) error {
				_, err := billing.Reconcile(ctx, d.billing)
				return err
			}}),
	}
	if d.linksOff() == "" {
		// A run checks only the links that are due: each once a day, no matter how often the process
		// starts.
		last = append(last, d.repeated(startTime, service.Loop{Name: "link checks", Interval: time.Hour, Wake: d.readNow,
			Do: func(ctx context.Context) error {
				_, err := history.CheckLinks(ctx, d.history)
				return err
			}}))
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

// startTime is the wait before the first run of a scheduled job: the services start meanwhile.
const startTime = time.Minute

// repeated returns the job that runs l after a wait, or once l is woken. l logs failures, such as
// those of a full disk, and continues.
func (d *deployment) repeated(wait time.Duration, l service.Loop) job {
	return job{l.Name, func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		case <-l.Wake:
		}
		l.Run(ctx, d.log)
		return nil
	}}
}

// linksOff returns why links are not checked and pages not read again, and how to switch that on;
// "" if they are.
func (d *deployment) linksOff() string {
	const off = "Link checks are off, and pages are not read again: "
	if !d.links {
		return off + "OPPORTUNITY_LINK_CHECKS is false. Set it to true to switch them on."
	}
	if history.CheckContact(d.history) != nil {
		return off + "site owners could not open the contact page under " + d.publicURL +
			". To switch them on, set OPPORTUNITY_PUBLIC_URL to a public address, or OPPORTUNITY_LINK_CHECK_CONTACT to a " +
			"public page."
	}
	return ""
}
