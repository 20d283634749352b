package e2e

import (
	"encoding/json"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/storetest"
)

const (
	internalToken = "end-to-end-internal-token-0123456789abcdef"
	operatorToken = "end-to-end-operator-token-0123456789abcdef"
	gateways      = 3
)

// stack is the API as it runs in a cluster: a process for each service, three gateways, Postgres and Redis.
type stack struct {
	deployment // of the first gateway

	gateways   []string            // public addresses
	operations []string            // addresses of the operations ports
	settings   map[string][]string // by service; of the last gateway
	redis      *storetest.RedisServer
	databases  *cut
	processes  []*process
}

// newStack starts a stack, empty, as its operator would: migrations as the owner of the schema, services as a role with no
// right but what serving needs.
func newStack(t testing.TB, settings ...string) *stack {
	t.Helper()
	s := &stack{redis: storetest.Redis(t), settings: map[string][]string{}}
	server, err := url.Parse(os.Getenv(storetest.PostgresVariable))
	require.NoError(t, err)
	s.databases = newCut(t, server.Host)

	addresses := map[string]string{}
	for _, name := range []string{"catalog", "history", "authquota"} {
		addresses[name] = storetest.FreeAddress(t)
	}
	public := []string{}
	for range gateways {
		public = append(public, storetest.FreeAddress(t))
	}
	common := append([]string{
		"OPPORTUNITY_PUBLIC_URL=http://" + public[0],
		"OPPORTUNITY_INTERNAL_TOKENS=" + internalToken,
		"OPPORTUNITY_OPERATOR_TOKENS=" + operatorToken,
		"OPPORTUNITY_KEY_PEPPERS=00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
		"OPPORTUNITY_ENCRYPTION_KEYS=ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100",
		"OPPORTUNITY_SMTP_URL=file://" + t.TempDir(),
		"OPPORTUNITY_MAIL_FROM=no-reply@api.example",
		"OPPORTUNITY_REDIS_URL=" + s.redis.URL,
		"OPPORTUNITY_CATALOG_URL=http://" + addresses["catalog"],
		"OPPORTUNITY_HISTORY_URL=http://" + addresses["history"],
		"OPPORTUNITY_AUTHQUOTA_URL=http://" + addresses["authquota"],
	}, settings...)
	serve := func(name, address string, more ...string) {
		operations := storetest.FreeAddress(t)
		env := slices.Concat(common, more, []string{"OPPORTUNITY_LISTEN=" + address, "OPPORTUNITY_OPERATIONS_LISTEN=" + operations})
		s.settings[name], s.operations = env, append(s.operations, "http://"+operations)
		s.processes = append(s.processes, start(t, env, program(t, name), "serve"))
	}
	for _, name := range []string{"catalog", "history", "authquota"} {
		owner := storetest.Postgres(t)
		role, asRole := storetest.Role(t, owner)
		owned := []string{"OPPORTUNITY_DATABASE_URL=" + owner, "OPPORTUNITY_DATABASE_SERVING_ROLE=" + role}
		_, errs, code := run(t, owned, "", program(t, name), "migrate")
		require.Zero(t, code, "%s migrate: %s", name, errs)
		serve(name, addresses[name], "OPPORTUNITY_DATABASE_URL="+s.databases.through(t, asRole))
	}
	for i, address := range public {
		admin := storetest.FreeAddress(t)
		if i == 0 {
			s.deployment = deployment{
				url: "http://" + address, adminURL: "http://" + admin,
				token: []string{"OPPORTUNITY_OPERATOR_TOKEN=" + operatorToken}, keys: map[api.Tier]string{},
			}
		}
		s.gateways = append(s.gateways, "http://"+address)
		serve("gateway", address, "OPPORTUNITY_ADMIN_LISTEN="+admin)
		defer ready(t, "http://"+admin+"/readyz", s.processes...)
	}
	return s
}

// fill copies the published records and events of another deployment to the stack, and waits until they are served.
func (s *stack) fill(t testing.TB, from deployment) {
	t.Helper()
	s.verb(t, from.verb(t, "", "listings", "export"), "listings", "import", "-")
	theirs, verified := spend(from, api.Commercial), 0
	var events strings.Builder
	for _, o := range list(t, from.url, theirs.next(t), "/api/v1/opportunities?limit=100") {
		for _, p := range walk(t, from.url, theirs.next(t), "/api/v1/opportunities/"+o.ID+"/history?limit=100", eventPage) {
			for _, e := range p.Data {
				line, err := json.Marshal(e)
				require.NoError(t, err)
				events.WriteString(strings.Replace(string(line), `"id":"`+e.ID+`",`, "", 1) + "\n")
			}
		}
		if o.Verification.ReviewCount > 0 {
			verified++
		}
	}
	s.verb(t, events.String(), "events", "append", "-")
	ours := spend(s.deployment, api.Commercial)
	for _, gateway := range s.gateways {
		eventually(t, "the events show", func() bool {
			got := decode[api.OpportunityList](t, do(t, gateway, call{path: "/api/v1/opportunities?checked_after=2000-01-01", key: ours.next(t)}))
			return got.Pagination.Total == verified
		})
	}
}

// cut is a proxy between the services and Postgres. It can interrupt their connections, as if Postgres had stopped.
type cut struct {
	t      testing.TB
	server string // address of Postgres
	own    string // address for the services

	mu       sync.Mutex
	listener net.Listener
	open     map[net.Conn]bool
}

func newCut(t testing.TB, server string) *cut {
	t.Helper()
	c := &cut{t: t, server: server, own: storetest.FreeAddress(t)}
	c.start()
	t.Cleanup(c.stop)
	return c
}

// through returns the URL of a database through the proxy.
func (c *cut) through(t testing.TB, database string) string {
	t.Helper()
	u, err := url.Parse(database)
	require.NoError(t, err)
	u.Host = c.own
	return u.String()
}

func (c *cut) start() {
	c.t.Helper()
	ln, err := net.Listen("tcp", c.own) //nolint:noctx // closed by stop
	require.NoError(c.t, err)
	c.mu.Lock()
	c.listener, c.open = ln, map[net.Conn]bool{}
	c.mu.Unlock()
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go c.carry(conn)
		}
	}()
}

func (c *cut) carry(conn net.Conn) {
	far, err := net.Dial("tcp", c.server) //nolint:noctx // closed with conn
	if err != nil {
		_ = conn.Close()
		return
	}
	c.mu.Lock()
	if c.listener == nil {
		_, _ = conn.Close(), far.Close()
	}
	c.open[conn], c.open[far] = true, true
	c.mu.Unlock()
	go func() { _, _ = io.Copy(far, conn); _ = far.Close() }()
	_, _ = io.Copy(conn, far)
	_ = conn.Close()
}

// stop rejects new connections and closes open ones.
func (c *cut) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listener == nil {
		return
	}
	_ = c.listener.Close()
	c.listener = nil
	for conn := range c.open {
		_ = conn.Close()
	}
}

// statuses sends n concurrent requests and counts responses by status. where returns the gateway of the i-th request.
func statuses(t testing.TB, n int, where func(i int) string, c call) (byStatus map[int]int, answers []answer) {
	t.Helper()
	answers = make([]answer, n)
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { answers[i], errs[i] = try(t.Context(), where(i), c) })
	}
	all.Wait()
	byStatus = map[int]int{}
	for i := range n {
		require.NoError(t, errs[i])
		byStatus[answers[i].StatusCode]++
	}
	return byStatus, answers
}

func (s *stack) rotate(i int) string { return s.gateways[i%len(s.gateways)] }
