package database

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
)

// readOnly is the SQLSTATE of a write to a standby, or to a primary that was set to read-only.
const readOnly = "25006"

// openPostgres returns the dialector of a postgres:// URL. If it names several servers, connections
// go to the one that accepts writes. It returns an error for a URL that permits connections to
// other machines without TLS, unless allowPlaintext is set.
func openPostgres(u url.URL, allowPlaintext bool) (gorm.Dialector, error) {
	q := u.Query()
	if q.Get("connect_timeout") == "" {
		q.Set("connect_timeout", "2")
	}
	if q.Get("target_session_attrs") == "" && strings.Contains(u.Host, ",") {
		q.Set("target_session_attrs", "read-write")
	}
	if attrs := q.Get("target_session_attrs"); attrs != "" && attrs != "read-write" && attrs != "primary" {
		return nil, errors.New("OPPORTUNITY_DATABASE_URL must have target_session_attrs=read-write or none: a standby may " +
			"lack the latest changes")
	}
	u.RawQuery = q.Encode()
	cfg, err := pgconn.ParseConfig(u.String())
	if err != nil {
		return nil, errors.New("OPPORTUNITY_DATABASE_URL is not a valid Postgres URL")
	}
	if !allowPlaintext && slices.ContainsFunc(ways(cfg), plaintext) {
		return nil, errors.New("OPPORTUNITY_DATABASE_URL permits connections without TLS: " +
			"add sslmode=verify-full, or for development set OPPORTUNITY_ALLOW_PLAINTEXT_STORES=true")
	}
	options := []stdlib.OptionOpenDB{stdlib.OptionBeforeConnect(prepare)}
	return postgres.New(postgres.Config{DSN: u.String(), OptionOpenDB: options}), nil
}

func ways(c *pgconn.Config) []*pgconn.FallbackConfig {
	return append([]*pgconn.FallbackConfig{{Host: c.Host, Port: c.Port, TLSConfig: c.TLSConfig}}, c.Fallbacks...)
}

// plaintext reports whether an attempt sends data over a network without TLS.
func plaintext(w *pgconn.FallbackConfig) bool {
	network, _ := pgconn.NetworkAddress(w.Host, w.Port)
	return w.TLSConfig == nil && network != "unix" && !api.IsLoopback(w.Host)
}

// prepare makes a connection that gets a readOnly error close, so that the pool replaces it, and
// makes the next attempt begin with any of the servers. Otherwise each attempt would begin with a
// lost server, and might end with its request before it tries another one.
func prepare(_ context.Context, c *pgx.ConnConfig) error {
	keep := c.OnPgError
	c.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) bool { return err.Code != readOnly && keep(conn, err) }

	all := ways(&c.Config)
	var servers []int // the first way to each; a server has two, with and without TLS, for sslmode=prefer
	for i, w := range all {
		if i == 0 || w.Host != all[i-1].Host || w.Port != all[i-1].Port {
			servers = append(servers, i)
		}
	}
	first := servers[rand.IntN(len(servers))]
	all = slices.Concat(all[first:], all[:first])
	c.Host, c.Port, c.TLSConfig, c.Fallbacks = all[0].Host, all[0].Port, all[0].TLSConfig, all[1:]
	return nil
}
