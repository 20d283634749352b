package e2e

import (
	"cmp"
	"database/sql"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/setback"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/storetest/redistest"
)

const (
	operatorToken = "end-to-end-operator-token-0123456789abcdef"
	pepper        = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	gateways      = 3 // of a stack that is no benchmark
)

// stack is the API as it runs in a cluster: a process for each service, three gateways, Postgres
// and Redis.
type stack struct {
	deployment // of the first gateway

	services   []string            // without the gateway
	gateways   []string            // public addresses
	operations []string            // addresses of the operations ports: of the services, then of the gateways
	settings   map[string][]string // by service; of the last gateway
	redis      *redistest.Server   // nil for a stack with another one
	databases  map[string]string   // URL of each service's database, as the owner of the schema
	addresses  map[string]string   // host and port of services for their callers, and of stores
	// file with the seconds by which the clocks of Redis and of clock gateways are wrong
	clock     string
	clocks    []time.Duration             // by which the clocks of the gateways are wrong; nil for ordinary gateways
	links     map[[2]string]*link         // by client and server: services, "redis" and "postgres"
	relays    map[string]*storetest.Proxy // by service
	processes []*process
}

// newStack starts a stack, empty, as its operator would: migrations as the owner of the schema,
// services as a role with no right but what serving needs.
func newStack(t testing.TB, settings ...string) *stack {
	t.Helper()
	return newStackOn(t, parts{}, settings...)
}

// parts are parts of a stack that differ from the usual ones: a Redis of the stack, and the
// Postgres of all tests, with links to them.
type parts struct {
	redis    string        // URL
	redisDir string        // if not empty, the Redis of the stack appends its data to files there
	database func() string // creates a database and returns its URL
	relayed  bool          // services are reached through relays, so that their processes can be replaced
	// if not nil, the gateways have clocks that are wrong by this much and follow the clock of Redis
	clocks  []time.Duration
	ahead   time.Duration // by which these clocks are ahead from the start
	billing bool          // billing runs, with its sandbox

	gateways int  // 0: three
	direct   bool // no links
}

// newStackOn is newStack with other parts.
func newStackOn(t testing.TB, at parts, settings ...string) *stack {
	t.Helper()
	services := []string{"catalog", "history", "authquota"}
	if at.billing {
		services = append(services, "billing")
	}
	a := newAssembly(t, at, services, settings)
	for _, name := range services {
		a.serveOnDatabase(name)
	}
	for i, gateway := range a.gateways {
		admin := storetest.FreeAddress(t)
		if i == 0 {
			a.deployment = deployment{
				url: gateway, adminURL: "http://" + admin,
				token: []string{"OPPORTUNITY_OPERATOR_TOKEN=" + operatorToken}, keys: map[api.Tier]string{},
			}
		}
		a.serve("gateway", hostOf(t, gateway), slices.Concat([]string{"OPPORTUNITY_ADMIN_LISTEN=" + admin},
			a.clockSettings(i))...)
		defer ready(t, "http://"+admin+"/readyz", a.processes...)
	}
	return a.stack
}

// assembly is a stack that is being started.
type assembly struct {
	*stack

	t      testing.TB
	at     parts
	common []string          // settings of all processes
	listen map[string]string // addresses of services
}

// newAssembly starts Redis, and chooses the addresses of everything else.
func newAssembly(t testing.TB, at parts, services, settings []string) *assembly {
	t.Helper()
	s := &stack{
		services: services, clocks: at.clocks,
		settings: map[string][]string{}, databases: map[string]string{}, addresses: map[string]string{},
		links: map[[2]string]*link{}, relays: map[string]*storetest.Proxy{},
	}
	a := &assembly{stack: s, t: t, at: at, listen: map[string]string{}}
	if at.redis == "" {
		a.startRedis()
	}
	if at.database == nil {
		a.addresses["postgres"] = hostOf(t, os.Getenv(storetest.PostgresVariable))
		a.at.database = func() string { return storetest.Postgres(t) }
	}
	for _, name := range services {
		a.listen[name] = storetest.FreeAddress(t)
		a.addresses[name] = a.listen[name]
		if at.relayed {
			s.relays[name] = storetest.NewProxy(t, a.listen[name])
			a.addresses[name] = s.relays[name].Address
		}
	}
	for range cmp.Or(at.gateways, gateways) {
		s.gateways = append(s.gateways, "http://"+storetest.FreeAddress(t))
	}
	a.common = append([]string{
		"OPPORTUNITY_PUBLIC_URL=" + s.gateways[0],
		"OPPORTUNITY_OPERATOR_TOKENS=" + operatorToken,
		"OPPORTUNITY_KEY_PEPPERS=" + pepper,
		"OPPORTUNITY_ENCRYPTION_KEYS=ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100",
		"OPPORTUNITY_SMTP_URL=file://" + t.TempDir(),
		"OPPORTUNITY_MAIL_FROM=no-reply@api.example",
	}, settings...)
	return a
}

func (a *assembly) startRedis() {
	a.t.Helper()
	a.clock = filepath.Join(a.t.TempDir(), "clock")
	setClock(a.t, a.clock, a.at.ahead)
	library := storetest.Must(clockLibrary())(a.t)
	environment := []string{"LD_PRELOAD=" + library, "CLOCK_OFFSET_FILE=" + a.clock}
	if a.at.redisDir == "" {
		a.redis = redistest.Start(a.t, environment...)
	} else {
		a.redis = redistest.StartOn(a.t, a.at.redisDir, environment...)
	}
	a.addresses["redis"] = hostOf(a.t, a.redis.URL)
}

// serveOnDatabase creates the database of a service and starts the service.
func (a *assembly) serveOnDatabase(name string) {
	a.t.Helper()
	owner := a.at.database()
	a.databases[name] = owner
	role, asRole := storetest.Role(a.t, owner)
	owned := []string{"OPPORTUNITY_DATABASE_URL=" + owner, "OPPORTUNITY_DATABASE_SERVING_ROLE=" + role}
	_, errs, code := run(a.t, owned, "", program(a.t, name), "migrate")
	require.Zero(a.t, code, "%s migrate: %s", name, errs)
	if server := a.addresses["postgres"]; server != "" && !a.at.direct {
		l := newLink(a.t, server)
		a.links[[2]string{name, "postgres"}] = l
		asRole = through(a.t, l, asRole)
	}
	a.serve(name, a.listen[name], "OPPORTUNITY_DATABASE_URL="+asRole)
}

// serve starts a process of a service, which reaches all others through links.
func (a *assembly) serve(name, address string, more ...string) {
	a.t.Helper()
	to := func(server string) string {
		if a.at.direct {
			return a.addresses[server]
		}
		at := [2]string{name, server}
		if a.links[at] == nil {
			a.links[at] = newLink(a.t, a.addresses[server])
		}
		return a.links[at].address()
	}
	operations, redis := storetest.FreeAddress(a.t), a.at.redis
	if redis == "" {
		redis = "redis://" + to("redis")
	}
	env := slices.Concat(a.common, tokens(name, first, first), []string{
		"OPPORTUNITY_LISTEN=" + address, "OPPORTUNITY_OPERATIONS_LISTEN=" + operations, "OPPORTUNITY_REDIS_URL=" + redis,
		"OPPORTUNITY_CATALOG_URL=http://" + to("catalog"), "OPPORTUNITY_HISTORY_URL=http://" + to("history"),
		"OPPORTUNITY_AUTHQUOTA_URL=http://" + to("authquota"),
	}, more)
	if a.at.billing {
		env = append(env, "OPPORTUNITY_BILLING_URL=http://"+to("billing"), "OPPORTUNITY_BILLING_PROCESSOR=sandbox")
	}
	a.settings[name], a.operations = env, append(a.operations, "http://"+operations)
	a.processes = append(a.processes, start(a.t, env, a.program(a.t, name), "serve"))
}

// process returns the process of a service, or the first of the gateways.
func (s *stack) process(t testing.TB, service string) *process {
	t.Helper()
	at := slices.IndexFunc(s.processes, func(p *process) bool { return p.name == service+" serve" })
	require.GreaterOrEqual(t, at, 0, "no process of %s", service)
	return s.processes[at]
}

func (s *stack) restart(t testing.TB, service string) {
	t.Helper()
	old := s.process(t, service)
	s.processes[slices.Index(s.processes, old)] = start(t, old.cmd.Env, old.cmd.Path, old.cmd.Args[1:]...)
}

func (s *stack) ready(t testing.TB) {
	t.Helper()
	for _, address := range s.operations {
		ready(t, address+"/readyz", s.processes...)
	}
}

// operationsOf returns the address of the operations port of a service, or the first of the
// gateways.
func (s *stack) operationsOf(service string) string {
	return s.operations[slices.Index(append(slices.Clone(s.services), peer.Gateway), service)]
}

// isSetBack reports whether a service does not serve because its database is older than what others
// have seen of it.
func (s *stack) isSetBack(t testing.TB, service string) bool {
	t.Helper()
	a, err := try(t.Context(), s.operationsOf(service), call{path: "/readyz"})
	return err == nil && strings.Contains(string(a.body), api.SetBackCondition)
}

// sampleEvents is the number of events of recordPath in the sample.
const sampleEvents = 7

func (s *stack) eventCount(t testing.TB, key string) int {
	t.Helper()
	return read[api.OpportunityDetail](t, s.url, key, recordPath).Data.Verification.HistoryCount
}

func (s *stack) awaitEvents(t testing.TB, key string, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("the record has %d events", n), func() bool {
		a := get(t, s.url, key, recordPath)
		return a.StatusCode == http.StatusOK && decode[api.OpportunityDetail](t, a).Data.Verification.HistoryCount == n
	})
}

// tokens returns the settings of a service with its tokens. Those for a called service have the
// suffixes that sent and accepted return.
func tokens(service string, sent, accepted func(called string) []string) []string {
	list := func(caller, called, name string, suffixes []string) (all []string) {
		for _, suffix := range suffixes {
			all = append(all, name+":"+tokenBetween(caller, called)+suffix)
		}
		return all
	}
	var sends, accepts []string
	for _, called := range []string{peer.Catalog, peer.History, peer.Authquota, peer.Billing} {
		sends = append(sends, list(service, called, called, sent(called))...)
	}
	for _, caller := range peer.CallersOf(service) {
		accepts = append(accepts, list(caller, service, caller, accepted(service))...)
	}
	return []string{"OPPORTUNITY_PEER_TOKENS=" + strings.Join(sends, ","),
		"OPPORTUNITY_CALLER_TOKENS=" + strings.Join(accepts, ",")}
}

func first(string) []string { return []string{""} }

func tokenBetween(caller, called string) string {
	return "token-of-" + caller + "-for-" + called + "-0123456789abcdef"
}

func (s *stack) link(from, to string) *link { return s.links[[2]string{from, to}] }

func hostOf(t testing.TB, address string) string {
	t.Helper()
	return storetest.Must(url.Parse(address))(t).Host
}

func through(t testing.TB, l *link, database string) string {
	t.Helper()
	u := storetest.Must(url.Parse(database))(t)
	u.Host = l.address()
	return u.String()
}

// fill imports the sample, and waits until its reviews are served.
func (s *stack) fill(t testing.TB) {
	t.Helper()
	s.verb(t, "", "sample")
	free := spend(s.deployment, api.Free)
	eventually(t, "the free set is complete", func() bool {
		return read[api.OpportunityList](t, s.url, free.next(t), listPath).Pagination.Total == 10
	})
	s.awaitEvents(t, s.issue(t, api.Commercial).Key, sampleEvents)
}

// query returns the text that a query of one row returns.
func (s *stack) query(t testing.TB, service, query string) (text string) {
	t.Helper()
	db := storetest.Must(sql.Open("pgx", s.databases[service]))(t)
	defer db.Close()
	require.NoError(t, db.QueryRowContext(t.Context(), query).Scan(&text))
	return text
}

// changesAreSeen waits until a gateway has seen the newest change of each service. A restore that
// loses only later ones is not noticed.
func (s *stack) changesAreSeen(t testing.TB) {
	t.Helper()
	newest := map[string]string{"catalog": "SELECT value::text FROM change_sequence",
		"authquota": "SELECT value::text FROM change_sequence",
		"history":   "SELECT max(sequence)::text FROM verification_events",
		"billing":   "SELECT coalesce(max(sequence), 0)::text FROM changes"}
	for _, service := range s.services {
		eventually(t, "a gateway has seen the newest change of "+service, func() bool {
			seen, _ := setback.Parse(s.redis.Client().HGet(t.Context(), counter.Marks, service).Val())
			return strconv.FormatInt(seen.Sequence, 10) == s.query(t, service, newest[service])
		})
	}
}

// statuses sends n GETs to the gateways in turn, 32 at a time, and counts responses by status.
func (s *stack) statuses(t testing.TB, n int, key, path string) (byStatus map[int]int, responses []response) {
	t.Helper()
	responses = make([]response, n)
	errs := make([]error, n)
	var all errgroup.Group
	all.SetLimit(32)
	for i := range n {
		all.Go(func() error {
			responses[i], errs[i] = try(t.Context(), s.rotate(i), call{path: path, key: key})
			return nil
		})
	}
	_ = all.Wait()
	byStatus = map[int]int{}
	for i := range n {
		require.NoError(t, errs[i])
		byStatus[responses[i].StatusCode]++
	}
	return byStatus, responses
}

func (s *stack) knows(t testing.TB, keys ...issued) {
	t.Helper()
	for _, key := range keys {
		for _, gateway := range s.gateways {
			require.Equal(t, http.StatusOK, decided(t, gateway, key.Key, listPath).StatusCode)
		}
	}
}

func (s *stack) rotate(i int) string { return s.gateways[i%len(s.gateways)] }
