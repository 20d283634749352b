package charts_test

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// connections lists connections: source -> destination -> ports.
type connections map[string]map[string]string

// allowed is the table of docs/operators/kubernetes.md. A pod outside the release is named by its
// namespace, if that is another one, and its label. "public" means any public address.
var allowed = connections{
	"ingress-nginx/": {"gateway": "8080"},
	"operator":       {"gateway": "8081"},
	"oauth2-proxy":   {"desk": "8082"},
	"desk":           {"gateway": "8081"},
	"monitoring/": {"gateway": "9090", "catalog": "9090", "history": "9090", "authquota": "9090",
		"billing": "9090"},
	"gateway": {"authquota": "8080", "catalog": "8080", "history": "8080", "billing": "8080",
		"redis": "6379"},
	"authquota":           {"billing": "8080", "postgres": "5432", "redis": "6379", "public": "587 465"},
	"catalog":             {"history": "8080", "postgres": "5432"},
	"history":             {"catalog": "8080", "postgres": "5432"},
	"history-check-links": {"postgres": "5432", "public": "80 443"},
	"billing":             {"authquota": "8080", "postgres": "5432", "public": "443"},
	"billing-reconcile":   {"postgres": "5432", "public": "443"},
	"migrate":             {"postgres": "5432"},
	"test":                {"gateway": "8080 8081"},
}

// lines returns the rules of the policies of these components for the connections: an egress rule
// at the source, and an ingress rule at the destination, so that a mistake in one opens nothing.
// Every component can reach DNS and the trace collector.
func (c connections) lines(components []string) (out []string) {
	add := func(own, arrow, peer, ports string) {
		for port := range strings.FieldsSeq(ports) {
			if slices.Contains(components, own) {
				out = append(out, own+arrow+peer+" "+port)
			}
		}
	}
	for _, own := range components {
		add(own, " -> ", "kube-system/kube-dns", "53/UDP 53")
		add(own, " -> ", "otel-collector", "4317 4318")
	}
	for from, destinations := range c {
		for to, ports := range destinations {
			add(from, " -> ", to, ports)
			add(to, " <- ", from, ports)
		}
	}
	return out
}

func components(manifests []manifest) []string {
	found := map[string]bool{}
	for _, p := range pods(manifests) {
		found[p.meta.Labels["app.kubernetes.io/component"]] = true
	}
	return keys(found)
}

// rules returns a line for each peer and port of each rule of the policies. It requires that one
// policy denies all traffic of the pods of the release, that each other one is for one component,
// and that every rule has peers and ports: without them, it would allow all.
func rules(t *testing.T, manifests []manifest) []string {
	t.Helper()
	out := map[string]bool{}
	policies := of[*networkingv1.NetworkPolicy](manifests)
	for _, policy := range policies {
		require.Equal(t, []networkingv1.PolicyType{"Ingress", "Egress"}, policy.Spec.PolicyTypes, policy.Name)
		if policy.Name == "opportunity-default-deny" {
			require.Empty(t, policy.Spec.Ingress)
			require.Empty(t, policy.Spec.Egress)
			for _, p := range pods(manifests) {
				require.True(t, matches(policy.Spec.PodSelector.MatchLabels, p.meta.Labels), p.owner)
			}
			continue
		}
		own := peerName(t, networkingv1.NetworkPolicyPeer{PodSelector: &policy.Spec.PodSelector})
		add := func(arrow string, peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort) {
			require.NotEmpty(t, peers, policy.Name)
			require.NotEmpty(t, ports, policy.Name)
			for _, peer := range peers {
				for _, port := range ports {
					line := own + arrow + peerName(t, peer) + " " + port.Port.String()
					if *port.Protocol == corev1.ProtocolUDP {
						line += "/UDP"
					}
					out[line] = true
				}
			}
		}
		for _, r := range policy.Spec.Ingress {
			add(" <- ", r.From, r.Ports)
		}
		for _, r := range policy.Spec.Egress {
			add(" -> ", r.To, r.Ports)
		}
	}
	require.True(t, len(policies) == 0 || slices.ContainsFunc(policies,
		func(p *networkingv1.NetworkPolicy) bool { return p.Name == "opportunity-default-deny" }))
	return keys(out)
}

// peerName returns the name of a peer as in the table. An address block that is not public is its
// own name.
func peerName(t *testing.T, peer networkingv1.NetworkPolicyPeer) string {
	t.Helper()
	if peer.IPBlock != nil {
		if len(peer.IPBlock.Except) > 0 {
			return "public"
		}
		return peer.IPBlock.CIDR
	}
	name := ""
	if peer.NamespaceSelector != nil {
		require.Len(t, peer.NamespaceSelector.MatchLabels, 1)
		name = peer.NamespaceSelector.MatchLabels[corev1.LabelMetadataName] + "/"
	}
	if peer.PodSelector == nil {
		return name
	}
	labels := peer.PodSelector.MatchLabels
	if component := labels["app.kubernetes.io/component"]; component != "" {
		require.Equal(t, map[string]string{"app.kubernetes.io/name": "opportunity", "app.kubernetes.io/instance": release,
			"app.kubernetes.io/component": component}, labels, "no other release")
		return component
	}
	require.Len(t, labels, 1)
	return name + labels["app.kubernetes.io/name"] + labels["k8s-app"]
}

// requirePublic checks that a block has public addresses, and none of a cluster, of a cloud's
// metadata service, or of networkPolicy.clusterRanges in the tests.
func requirePublic(t *testing.T, block networkingv1.IPBlock) {
	t.Helper()
	contains := func(address string) bool {
		within := func(r string) bool { return netip.MustParsePrefix(r).Contains(netip.MustParseAddr(address)) }
		return within(block.CIDR) && !slices.ContainsFunc(block.Except, within)
	}
	require.True(t, contains("1.1.1.1") || contains("2606:4700::1111"), block.CIDR)
	for _, address := range []string{"10.244.1.4", "10.96.0.1", "192.168.1.10", "172.16.0.1", "127.0.0.1", "169.254.169.254",
		"203.0.113.9", "2600:1f00:1::1", "fd00::1", "fe80::1", "::1"} {
		require.False(t, contains(address), "%s contains %s", block.CIDR, address)
	}
}

func withRanges(given values) values {
	return set(given, "networkPolicy.clusterRanges", []any{"203.0.113.0/24", "2600:1f00::/24"})
}

func TestOnlyDocumentedConnectionsAreAllowed(t *testing.T) {
	given := withRanges(withDesk())
	for peer, name := range map[string]string{"operators": "operator", "desk": "oauth2-proxy"} {
		set(given, "networkPolicy."+peer+".peers",
			[]any{values{"podSelector": values{"matchLabels": values{"app.kubernetes.io/name": name}}}})
	}
	all := rendered(t, given)
	require.ElementsMatch(t, allowed.lines(components(all)), rules(t, all))
	for _, policy := range of[*networkingv1.NetworkPolicy](all) {
		for _, r := range policy.Spec.Egress {
			for _, peer := range r.To {
				if peer.IPBlock != nil {
					requirePublic(t, *peer.IPBlock)
				}
			}
		}
	}
}

func TestDisabledPartsAreNotMentioned(t *testing.T) {
	all := rendered(t, withRanges(with("billing.enabled", false)))
	for _, m := range all {
		require.NotRegexp(t, "billing|desk", m.text, m.file)
	}
	table := connections{}
	for from, destinations := range allowed {
		// Operators come by port-forward only.
		if !slices.Contains([]string{"operator", "desk", "billing", "billing-reconcile"}, from) {
			table[from] = maps.Clone(destinations)
			delete(table[from], "billing")
		}
	}
	require.ElementsMatch(t, table.lines(components(all)), rules(t, all))
}

// TestValuesLimitExternalDestinations checks databases outside the cluster, a configured mail
// server, and empty lists of peers.
func TestValuesLimitExternalDestinations(t *testing.T) {
	given := withRanges(cases(t)["ci/external-stores-values.yaml"])
	set(given, "networkPolicy.scraper.peers", []any{})
	set(given, "networkPolicy.processor.internet", false)
	all := rendered(t, given)
	table := connections{}
	for from, destinations := range allowed {
		table[from] = maps.Clone(destinations)
		if ports, stores := table[from]["postgres"]; stores {
			delete(table[from], "postgres")
			table[from]["192.0.2.10/32"], table[from]["2001:db8::10/128"] = ports, ports
		}
		if _, counts := table[from]["redis"]; counts {
			delete(table[from], "redis")
			table[from]["192.0.2.20/32"] = "6380"
		}
	}
	for _, from := range []string{"monitoring/", "operator", "oauth2-proxy", "desk"} { // no peers, and no desk
		delete(table, from)
	}
	for _, from := range []string{"authquota", "billing", "billing-reconcile"} {
		delete(table[from], "public")
	}
	table["authquota"]["192.0.2.30/32"] = "587"
	require.ElementsMatch(t, table.lines(components(all)), rules(t, all))
}

// TestEveryPodIsClosed checks in each case that rules have peers and ports and that all pods are
// denied by default; one case switches policies off.
func TestEveryPodIsClosed(t *testing.T) {
	closed := 0
	eachCase(t, func(t *testing.T, all []manifest) {
		if len(rules(t, all)) > 0 {
			closed++
		}
	})
	require.Equal(t, len(cases(t))-1, closed)
}
