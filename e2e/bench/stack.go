package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
)

const (
	operatorToken = "bench-operator-token-0123456789abcdef0123456789"

	// unlimited is a limit that no run reaches.
	unlimited = 1_000_000_000

	// The highest limits that a tier can have.
	maxPerMinute, maxPerDay = 10_000, 1_000_000_000

	// accounts is the number of accounts that call in turn, enough for 10,000 calls per second with those limits.
	accounts = 64
)

// stack is the API as in a cluster: one process of each service that a read needs, Redis and Postgres.
type stack struct {
	bin, dir string // of programs and of files
	common   []string
	server   string // URL of the Postgres server, as superuser

	address    map[string]string // host and port, by service; also "redis" and "admin"
	operations map[string]string // host and port of the operations port, by service
	databases  map[string]string // URLs by service
	processes  map[string]*process
	header     map[string]string // of requests of the gateway to a service

	keys     []string // of the accounts, with limits that no run reaches
	smallKey string   // one call per day

	imported, appended time.Duration // what filling the stack took
}

// postgresVariable is set by scripts/with-stores.
const postgresVariable = "OPPORTUNITY_TEST_POSTGRES_URL"

// newStack starts an empty stack. close it in any case.
func newStack(ctx context.Context, bin, dir string) (*stack, error) {
	s := &stack{
		bin: bin, dir: dir, server: os.Getenv(postgresVariable), address: map[string]string{}, operations: map[string]string{},
		databases: map[string]string{}, processes: map[string]*process{},
	}
	if s.server == "" {
		return s, fmt.Errorf("%s is not set: run make bench", postgresVariable)
	}
	caller, err := json.Marshal(api.Caller{Tier: api.Commercial, PageSize: 100, History: true})
	if err != nil {
		return s, err
	}
	s.header = map[string]string{"Authorization": "Bearer " + tokenOf(peer.Gateway), api.CallerHeader: string(caller)}
	for _, name := range []string{"redis", "catalog", "history", "authquota", "gateway", "admin"} {
		address, err := freeAddress()
		if err != nil {
			return s, err
		}
		s.address[name] = address
	}
	s.common = []string{
		"OPPORTUNITY_PUBLIC_URL=http://" + s.address["gateway"],
		"OPPORTUNITY_OPERATOR_TOKENS=" + operatorToken, "OPPORTUNITY_DATABASE_ALLOW_OWNER=true",
		"OPPORTUNITY_KEY_PEPPERS=00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
		"OPPORTUNITY_ENCRYPTION_KEYS=ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100",
		"OPPORTUNITY_SMTP_URL=file://" + dir, "OPPORTUNITY_MAIL_FROM=no-reply@api.example",
		"OPPORTUNITY_REDIS_URL=redis://" + s.address["redis"], "OPPORTUNITY_ADMIN_LISTEN=" + s.address["admin"],
		fmt.Sprintf("OPPORTUNITY_SERVICE_CAPACITY=%d", unlimited),
		fmt.Sprintf("OPPORTUNITY_TIERS=developer=1/1/50,commercial=%d/%d/100", maxPerMinute, maxPerDay),
	}
	for _, name := range []string{"catalog", "history", "authquota"} {
		s.common = append(s.common, fmt.Sprintf("OPPORTUNITY_%s_URL=http://%s", map[string]string{
			"catalog": "CATALOG", "history": "HISTORY", "authquota": "AUTHQUOTA",
		}[name], s.address[name]))
	}
	return s, s.start(ctx)
}

func (s *stack) start(ctx context.Context) (err error) {
	_, port := split(s.address["redis"])
	if s.processes["redis"], err = start(s.dir, "redis", nil, "redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "",
		"--appendonly", "no"); err != nil {
		return err
	}
	for _, name := range []string{"catalog", "history", "authquota"} {
		if s.databases[name], err = newDatabase(ctx, s.server, name); err != nil {
			return err
		}
		settings := append(s.settings(name), "OPPORTUNITY_LISTEN=127.0.0.1:0")
		if _, err := tool(ctx, settings, nil, filepath.Join(s.bin, name), "migrate"); err != nil {
			return err
		}
	}
	for _, name := range []string{"catalog", "history", "authquota", "gateway"} {
		if err := s.serve(name); err != nil {
			return err
		}
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	for range accounts {
		key, err := s.issue(ctx, api.Commercial)
		if err != nil {
			return err
		}
		s.keys = append(s.keys, key)
	}
	s.smallKey, err = s.issue(ctx, api.Developer)
	return err
}

func (s *stack) settings(name string) []string {
	var sent, accepted []string
	for _, called := range []string{peer.Catalog, peer.History, peer.Authquota} {
		sent = append(sent, called+":"+tokenOf(name))
	}
	for _, caller := range peer.CallersOf(name) {
		accepted = append(accepted, caller+":"+tokenOf(caller))
	}
	return append([]string{
		"OPPORTUNITY_DATABASE_URL=" + s.databases[name],
		"OPPORTUNITY_PEER_TOKENS=" + strings.Join(sent, ","), "OPPORTUNITY_CALLER_TOKENS=" + strings.Join(accepted, ","),
	}, s.common...)
}

// tokenOf returns the token that a service sends to all others.
func tokenOf(service string) string { return "bench-token-of-" + service + "-0123456789abcdef" }

// serve starts a service.
func (s *stack) serve(name string) error {
	operations, err := freeAddress()
	if err != nil {
		return err
	}
	s.operations[name] = operations
	settings := append(s.settings(name), "OPPORTUNITY_LISTEN="+s.address[name], "OPPORTUNITY_OPERATIONS_LISTEN="+operations)
	s.processes[name], err = start(s.dir, name, settings, filepath.Join(s.bin, name), "serve")
	return err
}

// ready waits until the whole stack is ready.
func (s *stack) ready(ctx context.Context) error {
	return ready(ctx, "http://"+s.address["admin"]+"/readyz", 2*time.Minute, slices.Collect(maps.Values(s.processes))...)
}

// close stops every process.
func (s *stack) close() {
	for _, name := range []string{"gateway", "authquota", "history", "catalog", "redis"} {
		if p := s.processes[name]; p != nil {
			p.stop()
		}
	}
}

// operator runs a verb of the command opportunity.
func (s *stack) operator(ctx context.Context, args ...string) ([]byte, error) {
	return tool(ctx, []string{"OPPORTUNITY_ADMIN_URL=http://" + s.address["admin"], "OPPORTUNITY_OPERATOR_TOKEN=" + operatorToken}, nil,
		filepath.Join(s.bin, "opportunity"), args...)
}

// issue issues a key with an account of its own.
func (s *stack) issue(ctx context.Context, tier api.Tier) (string, error) {
	body := fmt.Sprintf(`{"tier":%q,"useCase":"benchmark"}`, tier)
	text, err := call(ctx, http.MethodPost, "http://"+s.address["admin"]+"/operator/v1/keys", operatorToken, body)
	var issued api.IssuedKey
	if err == nil {
		err = json.Unmarshal(text, &issued)
	}
	return issued.Key, err
}

// newDatabase creates a database and returns its URL. It is deleted with the server, a temporary one.
func newDatabase(ctx context.Context, server, name string) (string, error) {
	db, err := pgx.Connect(ctx, server)
	if err != nil {
		return "", err
	}
	defer db.Close(ctx) //nolint:errcheck // the statement's error counts
	unique := fmt.Sprintf("%s_%d", name, time.Now().UnixNano())
	if _, err := db.Exec(ctx, "CREATE DATABASE "+unique); err != nil {
		return "", err
	}
	u, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	u.Path = "/" + unique
	return u.String(), nil
}
