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

	"opportunity.internal/pkg/api"
)

// server holds the options of a URL: one Redis, or the primary that Sentinels name. Exactly one of
// the two is set.
type server struct {
	single   *redis.Options
	failover *redis.FailoverOptions
}

// parse returns the server of a URL. Its errors quote nothing, because even a part of a malformed
// URL may be from the password.
func parse(text string) (server, error) {
	u, err := url.Parse(text)
	if err != nil {
		return server{}, errors.New("OPPORTUNITY_REDIS_URL is not a URL: percent-encode special characters of the " +
			"password, such as %2F for /")
	}
	switch u.Scheme {
	case "redis", "rediss":
		o, err := redis.ParseURL(text)
		if n, wrong := strconv.ParseUint(cmp.Or(u.Port(), "6379"), 10, 16); err != nil || wrong != nil || n == 0 {
			return server{}, errors.New("OPPORTUNITY_REDIS_URL must be redis://[user:password@]host:port[/number], or the " +
				"same with rediss://")
		}
		return server{single: o}, nil
	case "redis+sentinel", "rediss+sentinel":
		o, err := parseSentinel(u)
		return server{failover: o}, err
	}
	return server{}, errors.New("OPPORTUNITY_REDIS_URL must begin with redis://, rediss://, redis+sentinel:// or " +
		"rediss+sentinel://")
}

// sentinelPort is the port of a Sentinel whose address has none.
const sentinelPort = "26379"

func parseSentinel(u *url.URL) (*redis.FailoverOptions, error) {
	o := &redis.FailoverOptions{Username: u.User.Username()}
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
		o.SentinelAddrs = append(o.SentinelAddrs, net.JoinHostPort(name, port))
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

func (s server) plaintext() bool {
	var config *tls.Config
	if s.single != nil {
		config = s.single.TLSConfig
	} else {
		config = s.failover.TLSConfig
	}
	return config == nil && slices.ContainsFunc(s.addresses(), func(address string) bool {
		host, _, err := net.SplitHostPort(address)
		return err != nil || !api.IsLoopback(host)
	})
}

func (s server) addresses() []string {
	if s.single != nil {
		return []string{s.single.Addr}
	}
	return s.failover.SentinelAddrs
}

func (s server) open(budget time.Duration, connected func(context.Context, *redis.Conn) error) *redis.Client {
	if s.single != nil {
		failFast(s.single, budget)
		s.single.OnConnect = connected
		return redis.NewClient(s.single)
	}
	// The library keeps asking the Sentinel that it asked before, and takes another one only if
	// that fails before the dial that needs the address times out. Otherwise one Sentinel on a lost
	// node stops all dials. So the steps of a dial take a quarter of the budget each.
	o, step := s.failover, budget/4
	o.Dialer = dialer(o.TLSConfig, step)
	o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true
	o.DialTimeout, o.PoolTimeout, o.ReadTimeout, o.WriteTimeout = budget, budget, step, step
	o.PoolSize, o.PipelinePoolSize, o.DisableIdentity = poolSize, -1, true
	client := redis.NewFailoverClient(o)
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
