package redisdb

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"opportunity.internal/pkg/api"
)

// parse returns the options of a URL: of one Redis, or of Sentinels that name its primary. Its
// errors quote nothing, because even a part of a malformed URL may be from the password.
func parse(text string) (*redis.UniversalOptions, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("OPPORTUNITY_REDIS_URL is not a URL: percent-encode special characters of the " +
			"password, such as %2F for /")
	}
	switch u.Scheme {
	case "redis", "rediss":
		o, err := redis.ParseURL(text)
		if n, wrong := strconv.ParseUint(cmp.Or(u.Port(), "6379"), 10, 16); err != nil || wrong != nil || n == 0 {
			return nil, errors.New("OPPORTUNITY_REDIS_URL must be redis://[user:password@]host:port[/number], or the " +
				"same with rediss://")
		}
		return &redis.UniversalOptions{Addrs: []string{o.Addr}, DB: o.DB, Username: o.Username, Password: o.Password,
			TLSConfig: o.TLSConfig}, nil
	case "redis+sentinel", "rediss+sentinel":
		return parseSentinel(u)
	}
	return nil, errors.New("OPPORTUNITY_REDIS_URL must begin with redis://, rediss://, redis+sentinel:// or " +
		"rediss+sentinel://")
}

// sentinelPort is the port of a Sentinel whose address has none.
const sentinelPort = "26379"

func parseSentinel(u *url.URL) (*redis.UniversalOptions, error) {
	o := &redis.UniversalOptions{Username: u.User.Username()}
	o.Password, _ = u.User.Password()
	for host := range strings.SplitSeq(u.Host, ",") {
		name, port, err := net.SplitHostPort(host)
		if err != nil {
			name, port = strings.Trim(host, "[]"), sentinelPort
		}
		if n, err := strconv.ParseUint(port, 10, 16); name == "" || strings.Contains(name, ":") && host[0] != '[' || n == 0 ||
			err != nil {
			return nil, errors.New("OPPORTUNITY_REDIS_URL has an invalid address of a Sentinel: use " +
				"host:port,host:port,host:port")
		}
		o.Addrs = append(o.Addrs, net.JoinHostPort(name, port))
	}
	name, number, numbered := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	if name == "" {
		return nil, errors.New("OPPORTUNITY_REDIS_URL lacks the name of the primary, as in " +
			"redis+sentinel://host:26379/mymaster")
	}
	o.MasterName = name
	if numbered {
		n, err := strconv.ParseUint(number, 10, 15)
		if err != nil {
			return nil, errors.New("OPPORTUNITY_REDIS_URL has an invalid database number after the name of the primary")
		}
		o.DB = int(n) //nolint:gosec // 15 bits
	}
	params, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("OPPORTUNITY_REDIS_URL has malformed parameters: percent-encode special characters of the " +
			"password")
	}
	o.SentinelUsername, o.SentinelPassword = params.Get("sentinel_username"), params.Get("sentinel_password")
	params.Del("sentinel_username")
	params.Del("sentinel_password")
	if len(params) > 0 {
		return nil, errors.New("OPPORTUNITY_REDIS_URL has an unknown parameter: use only sentinel_username and " +
			"sentinel_password")
	}
	if u.Scheme == "rediss+sentinel" {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12} // each dial verifies the host that it dials
	}
	return o, nil
}

// plaintext reports whether the options use other machines without TLS.
func plaintext(o *redis.UniversalOptions) bool {
	return o.TLSConfig == nil && slices.ContainsFunc(o.Addrs, func(address string) bool {
		host, _, err := net.SplitHostPort(address)
		return err != nil || !api.IsLoopback(host)
	})
}

const poolSize = 64

// connect creates a client, with other values for defaults that cost seconds during a Redis outage:
// up to four attempts per command and five dials per attempt, with their own pauses and timeouts,
// regardless of the context's deadline.
func connect(o *redis.UniversalOptions, budget time.Duration, connected func(context.Context, *redis.Conn) error,
) *redis.Client {
	o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true
	o.DialTimeout, o.PoolTimeout, o.ReadTimeout, o.WriteTimeout = budget, budget, budget, budget
	// Bursts must not queue for connections. Pipelines share the pool. No connection is opened
	// before it is needed; see dialed.
	o.PoolSize, o.PipelinePoolSize = poolSize, -1
	// The embedded server supports neither CLIENT SETINFO nor the maintenance handshake, and they
	// are not needed.
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if o.MasterName == "" {
		o.OnConnect = connected
		return redis.NewClient(o.Simple())
	}
	// The library keeps asking the Sentinel that it asked before, and takes another one only if
	// that fails before the dial that needs the address times out. Otherwise one Sentinel on a lost
	// node stops all dials. So the steps of a dial take a quarter of the budget each.
	step := budget / 4
	o.Dialer, o.ReadTimeout, o.WriteTimeout = dialer(o.TLSConfig, step), step, step
	client := redis.NewFailoverClient(o.Failover())
	// These options are for the primary, while o has them for the Sentinels as well. Nothing is
	// connected yet.
	own := client.Options()
	own.ReadTimeout, own.WriteTimeout, own.OnConnect = budget, budget, connected
	return client
}

// dialer returns a dialer of connections, with TLS unless config is nil. timeout includes the
// handshake.
func dialer(config *tls.Config, timeout time.Duration) func(ctx context.Context, network, addr string) (net.Conn,
	error) {
	plain := &net.Dialer{Timeout: timeout}
	if config == nil {
		return plain.DialContext
	}
	return (&tls.Dialer{NetDialer: plain, Config: config}).DialContext
}
