package e2e

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
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
	clock      string              // file with the seconds by which the clock of Redis is wrong
	links      map[[2]string]*link // by client and server: services, "redis" and "postgres"
	processes  []*process
}

// newStack starts a stack, empty, as its operator would: migrations as the owner of the schema, services as a role with no
// right but what serving needs.
func newStack(t testing.TB, settings ...string) *stack {
	t.Helper()
	s := &stack{clock: filepath.Join(t.TempDir(), "clock"), settings: map[string][]string{}, links: map[[2]string]*link{}}
	require.NoError(t, os.WriteFile(s.clock, []byte("0"), 0o600))
	s.redis = storetest.Redis(t, "LD_PRELOAD="+clockLibrary(t), "CLOCK_OFFSET_FILE="+s.clock)

	addresses := map[string]string{"postgres": hostOf(t, os.Getenv(storetest.PostgresVariable)), "redis": hostOf(t, s.redis.URL)}
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
	}, settings...)
	serve := func(name, address string, more ...string) {
		operations := storetest.FreeAddress(t)
		to := func(server string) string {
			at := [2]string{name, server}
			if s.links[at] == nil {
				s.links[at] = newLink(t, addresses[server])
			}
			return s.links[at].address()
		}
		env := slices.Concat(common, []string{
			"OPPORTUNITY_LISTEN=" + address, "OPPORTUNITY_OPERATIONS_LISTEN=" + operations, "OPPORTUNITY_REDIS_URL=redis://" + to("redis"),
			"OPPORTUNITY_CATALOG_URL=http://" + to("catalog"), "OPPORTUNITY_HISTORY_URL=http://" + to("history"),
			"OPPORTUNITY_AUTHQUOTA_URL=http://" + to("authquota"),
		}, more)
		s.settings[name], s.operations = env, append(s.operations, "http://"+operations)
		s.processes = append(s.processes, start(t, env, program(t, name), "serve"))
	}
	for _, name := range []string{"catalog", "history", "authquota"} {
		owner := storetest.Postgres(t)
		role, asRole := storetest.Role(t, owner)
		owned := []string{"OPPORTUNITY_DATABASE_URL=" + owner, "OPPORTUNITY_DATABASE_SERVING_ROLE=" + role}
		_, errs, code := run(t, owned, "", program(t, name), "migrate")
		require.Zero(t, code, "%s migrate: %s", name, errs)
		l := newLink(t, addresses["postgres"])
		s.links[[2]string{name, "postgres"}] = l
		serve(name, addresses[name], "OPPORTUNITY_DATABASE_URL="+through(t, l, asRole))
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

// link returns the link from a service to another service or a store.
func (s *stack) link(from, to string) *link { return s.links[[2]string{from, to}] }

// postgres returns the links from all services to Postgres.
func (s *stack) postgres() (all []*link) {
	for at, l := range s.links {
		if at[1] == "postgres" {
			all = append(all, l)
		}
	}
	return all
}

func hostOf(t testing.TB, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	return u.Host
}

// through returns the URL of a database through a link.
func through(t testing.TB, l *link, database string) string {
	t.Helper()
	u, err := url.Parse(database)
	require.NoError(t, err)
	u.Host = l.address()
	return u.String()
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
