package charts_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// Ports on which components in or around a release listen. Port 22 stands for any port that must be
// closed.
var (
	service    = tcp(8080)
	admin      = tcp(8081)
	deskPort   = tcp(8082)
	operations = tcp(9090)
	dns        = []port{{53, corev1.ProtocolUDP}, {53, corev1.ProtocolTCP}}
	collector  = []port{tcp(4317), tcp(4318)}
	postgres   = tcp(5432)
	redis      = tcp(6379)
	smtp       = []port{tcp(587), tcp(465)}
	web        = []port{tcp(80), tcp(443)}
	all        = slices.Concat([]port{service, admin, deskPort, operations, postgres, redis, tcp(22)}, dns, collector,
		smtp, web)
)

func tcp(number int32) port { return port{number, corev1.ProtocolTCP} }

// connections lists the allowed connections: source -> destination -> ports.
type connections map[string]map[string][]port

// allowed is the table of docs/operators/kubernetes.md. All other connections must be blocked.
// "public" means any public address.
var allowed = connections{
	"ingress controller": {"gateway": {service}},
	"operator":           {"gateway": {admin}},
	"desk's proxy":       {"desk": {deskPort}},
	"desk":               {"gateway": {admin}},
	"prometheus": {"gateway": {operations}, "catalog": {operations}, "history": {operations},
		"authquota": {operations}, "billing": {operations}},
	"gateway": {"authquota": {service}, "catalog": {service}, "history": {service}, "billing": {service},
		"redis": {redis}},
	"authquota":           {"billing": {service}, "postgres": {postgres}, "redis": {redis}, "public": smtp},
	"catalog":             {"history": {service}, "postgres": {postgres}},
	"history":             {"catalog": {service}, "postgres": {postgres}},
	"history-check-links": {"postgres": {postgres}, "public": web},
	"billing":             {"authquota": {service}, "postgres": {postgres}, "public": {tcp(443)}},
	"billing-reconcile":   {"postgres": {postgres}, "public": {tcp(443)}},
	"migrate":             {"postgres": {postgres}},
	"test":                {"gateway": {service, admin}},
}

// allowedForAll lists the destinations allowed for all pods of a release.
var allowedForAll = map[string][]port{"dns": dns, "otel-collector": collector}

// around lists pods and addresses outside a release. Public addresses come last.
var around = []party{
	{"ingress controller", "ingress-nginx", map[string]string{"app.kubernetes.io/name": "ingress-nginx"},
		ip("10.244.1.1")},
	{"operator", namespace, map[string]string{"app.kubernetes.io/name": "operator"}, ip("10.244.1.2")},
	{"prometheus", "monitoring", map[string]string{"app.kubernetes.io/name": "prometheus"}, ip("10.244.1.3")},
	{"postgres", namespace, map[string]string{"app.kubernetes.io/name": "postgres"}, ip("10.244.1.4")},
	{"redis", namespace, map[string]string{"app.kubernetes.io/name": "redis"}, ip("10.244.1.5")},
	{"otel-collector", namespace, map[string]string{"app.kubernetes.io/name": "otel-collector"}, ip("10.244.1.6")},
	{"dns", "kube-system", map[string]string{"k8s-app": "kube-dns"}, ip("10.244.1.7")},
	{"a neighbour", namespace, map[string]string{"app.kubernetes.io/name": "neighbour"}, ip("10.244.1.8")},
	{"postgres of others", "elsewhere", map[string]string{"app.kubernetes.io/name": "postgres"}, ip("10.244.1.9")},
	{"another release", namespace, map[string]string{
		"app.kubernetes.io/name": "opportunity", "app.kubernetes.io/instance": "other",
		"app.kubernetes.io/component": "gateway",
	}, ip("10.244.1.10")},
	{"desk's proxy", namespace, map[string]string{"app.kubernetes.io/name": "oauth2-proxy"}, ip("10.244.1.11")},
	{"a foreign pod with a public address", "elsewhere", map[string]string{"app.kubernetes.io/name": "stranger"},
		ip("203.0.113.9")},
	{"the API server", "", nil, ip("10.96.0.1")},
	{"a node", "", nil, ip("192.168.1.10")},
	{"the cloud's metadata service", "", nil, ip("169.254.169.254")},
	{"a host in clusterRanges", "", nil, ip("2600:1f00:1::1")},
	{"a private IPv6 address", "", nil, ip("fd00::1")},
	{"public", "", nil, ip("1.1.1.1")},
	{"public", "", nil, ip("2606:4700::1111")},
}

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

// inside returns the pods of a release, one for each component.
func inside(manifests []manifest) []party {
	byComponent := map[string]party{}
	for _, p := range pods(manifests) {
		name := p.meta.Labels["app.kubernetes.io/component"]
		byComponent[name] = party{name, namespace, p.meta.Labels,
			netip.AddrFrom4([4]byte{10, 244, 0, byte(len(byComponent) + 1)})}
	}
	return slices.Collect(maps.Values(byComponent))
}

// requireOnly checks, for every pair and port, that the policies allow a connection if and only if
// the table does.
func requireOnly(t *testing.T, table connections, manifests []manifest) {
	t.Helper()
	policies := network(of[*networkingv1.NetworkPolicy](manifests))
	ours := inside(manifests)
	isOurs := func(p party) bool { return slices.ContainsFunc(ours, func(o party) bool { return o.name == p.name }) }
	count := 0
	for _, from := range slices.Concat(ours, around) {
		for _, to := range slices.Concat(ours, around) {
			if !isOurs(from) && !isOurs(to) {
				continue
			}
			for _, p := range all {
				want := slices.Contains(table[from.name][to.name], p)
				if isOurs(from) {
					want = want || slices.Contains(allowedForAll[to.name], p)
				}
				if want {
					count++
				}
				pair := fmt.Sprintf("%s -> %s %s %d %s", from.name, to.name, to.address, p.number, p.protocol)
				require.Equal(t, want, policies.connects(from, to, p), pair)
				// Between pods of the release, the policies of both ends must block, so that a
				// mistake in one opens nothing.
				if isOurs(from) && isOurs(to) {
					require.Equal(t, want, policies.allows(networkingv1.PolicyTypeEgress, from, to, p), pair)
					require.Equal(t, want, policies.allows(networkingv1.PolicyTypeIngress, to, from, p), pair)
				}
			}
		}
	}
	require.Greater(t, count, 50, "too few allowed connections: the table was not used")
}

func TestOnlyDocumentedConnectionsAreAllowed(t *testing.T) {
	given := set(withDesk(), "networkPolicy.clusterRanges", []any{"203.0.113.0/24", "2600:1f00::/24"})
	set(given, "networkPolicy.operators.peers",
		[]any{values{"podSelector": values{"matchLabels": values{"app.kubernetes.io/name": "operator"}}}})
	set(given, "networkPolicy.desk.peers",
		[]any{values{"podSelector": values{"matchLabels": values{"app.kubernetes.io/name": "oauth2-proxy"}}}})
	requireOnly(t, allowed, rendered(t, given))
}

func TestDisabledBillingIsNotMentioned(t *testing.T) {
	given := set(with("billing.enabled", false), "networkPolicy.clusterRanges", []any{"203.0.113.0/24", "2600:1f00::/24"})
	manifests := rendered(t, given)
	for _, p := range inside(manifests) {
		require.NotContains(t, p.name, "billing")
	}
	for _, m := range manifests {
		require.NotContains(t, m.text, "billing", m.file)
	}
	table := maps.Clone(allowed)
	table["operator"] = nil // by port-forward only
	requireOnly(t, table, manifests)
}

// TestValuesLimitExternalDestinations checks databases outside the cluster, a configured mail
// server, and empty lists of peers.
func TestValuesLimitExternalDestinations(t *testing.T) {
	given := cases(t)["ci/external-stores-values.yaml"]
	set(given, "networkPolicy.scraper.peers", []any{})
	set(given, "networkPolicy.processor.internet", false)
	policies := network(of[*networkingv1.NetworkPolicy](rendered(t, given)))
	ours := map[string]party{}
	for _, p := range inside(rendered(t, given)) {
		ours[p.name] = p
	}
	outside := func(address string) party { return party{address: ip(address)} }
	for _, c := range []struct {
		from, to party
		port     port
		want     bool
	}{
		{ours["catalog"], outside("192.0.2.10"), postgres, true},
		{ours["catalog"], outside("2001:db8::10"), postgres, true},
		{ours["catalog"], outside("192.0.2.11"), postgres, false},
		{ours["migrate"], outside("192.0.2.10"), postgres, true},
		{ours["catalog"], around[3], postgres, false}, // the pod named postgres
		{ours["gateway"], outside("192.0.2.20"), tcp(6380), true},
		{ours["gateway"], outside("192.0.2.20"), redis, false},
		{ours["authquota"], outside("192.0.2.30"), tcp(587), true},
		{ours["authquota"], outside("1.1.1.1"), tcp(587), false},
		{ours["billing"], outside("1.1.1.1"), tcp(443), false},
		{around[2], ours["catalog"], operations, false}, // Prometheus: an empty list must not allow all peers
	} {
		require.Equal(t, c.want, policies.connects(c.from, c.to, c.port), "%s -> %s %s %d", c.from.name, c.to.name,
			c.to.address, c.port.number)
	}
}

// TestEveryPodIsClosed checks that pods are isolated by default, including pods of a component
// without its own policy.
func TestEveryPodIsClosed(t *testing.T) {
	unknown := party{name: "new", namespace: namespace, address: ip("10.244.0.200"), labels: map[string]string{
		"app.kubernetes.io/name": "opportunity", "app.kubernetes.io/instance": release, "app.kubernetes.io/component": "new",
	}}
	closed := 0
	eachCase(t, func(t *testing.T, manifests []manifest) {
		policies := network(of[*networkingv1.NetworkPolicy](manifests))
		if len(policies) == 0 {
			return // switched off
		}
		closed++
		for _, own := range append(inside(manifests), unknown) {
			for _, other := range around[7:10] { // a neighbour, others
				require.False(t, policies.connects(own, other, tcp(22)), own.name)
				require.False(t, policies.connects(other, own, operations), own.name)
			}
		}
		require.True(t, policies.connects(around[7], around[3], postgres), "policies must not affect other pods")
	})
	require.Equal(t, len(cases(t))-1, closed, "one case switches them off")
}

// TestPolicyEvaluator checks the evaluator that the other tests use.
func TestPolicyEvaluator(t *testing.T) {
	a := party{"a", namespace, map[string]string{"app": "a"}, ip("10.0.0.1")}
	b := party{"b", namespace, map[string]string{"app": "b"}, ip("10.0.0.2")}
	far := party{"far", "elsewhere", map[string]string{"app": "b"}, ip("10.0.0.3")}
	for spec, want := range map[string]struct{ ab, ba, aFar, abAdmin bool }{
		`{podSelector: {matchLabels: {app: other}}, policyTypes: [Ingress, Egress]}`: {true, true, true, true},
		`{podSelector: {matchLabels: {app: a}}, policyTypes: [Ingress]}`:             {true, false, true, true},
		`{podSelector: {}, policyTypes: [Egress], egress: [{to: []}]}`:               {true, true, true, true},
		`{podSelector: {matchLabels: {app: a}}, policyTypes: [Egress],
			egress: [{to: [{podSelector: {matchLabels: {app: b}}}]}]}`: {true, true, false, true},
		`{podSelector: {}, policyTypes: [Egress],
			egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.0.0.3/32]}}], ports: [{port: 8080}]}]}`: {true, true, false, false},
	} {
		policy := decode(t, "", "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: a}\nspec: "+
			strings.ReplaceAll(spec, "\t", " "))
		policies := network{policy.Object.(*networkingv1.NetworkPolicy)}
		require.Equal(t, want.ab, policies.connects(a, b, service), spec)
		require.Equal(t, want.ba, policies.connects(b, a, service), spec)
		require.Equal(t, want.aFar, policies.connects(a, far, service), spec)
		require.Equal(t, want.abAdmin, policies.connects(a, b, admin), spec)
	}
}
