package charts_test

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// party is one end of a connection: a pod, or an address outside the cluster.
type party struct {
	name      string
	namespace string            // empty if it is not a pod
	labels    map[string]string // of the pod
	address   netip.Addr
}

// port is the destination port of a connection.
type port struct {
	number   int32
	protocol corev1.Protocol
}

// network evaluates policies like a network plugin. If a policy selects a pod for a direction, only
// connections that some policy allows are possible in that direction. Both ends must allow a
// connection.
type network []*networkingv1.NetworkPolicy

func (n network) connects(from, to party, p port) bool {
	return n.allows(networkingv1.PolicyTypeEgress, from, to, p) && n.allows(networkingv1.PolicyTypeIngress, to, from, p)
}

// allows reports whether the policies of one end allow the connection with the other.
func (n network) allows(direction networkingv1.PolicyType, own, other party, p port) bool {
	if own.namespace == "" {
		return true // no policy selects it
	}
	closed := false
	for _, policy := range n {
		if own.namespace != namespace || !slices.Contains(policy.Spec.PolicyTypes, direction) ||
			!selects(&policy.Spec.PodSelector, own.labels) {
			continue
		}
		closed = true
		for _, rule := range rules(policy, direction) {
			if meets(rule.peers, other) && reaches(rule.ports, p) {
				return true
			}
		}
	}
	return !closed
}

type rule struct {
	peers []networkingv1.NetworkPolicyPeer
	ports []networkingv1.NetworkPolicyPort
}

func rules(policy *networkingv1.NetworkPolicy, direction networkingv1.PolicyType) (out []rule) {
	if direction == networkingv1.PolicyTypeIngress {
		for _, r := range policy.Spec.Ingress {
			out = append(out, rule{r.From, r.Ports})
		}
		return out
	}
	for _, r := range policy.Spec.Egress {
		out = append(out, rule{r.To, r.Ports})
	}
	return out
}

// meets reports whether a rule's peers include other. A rule without peers includes all. Address
// blocks apply to pods too, as in some plugins.
func meets(peers []networkingv1.NetworkPolicyPeer, other party) bool {
	return len(peers) == 0 || slices.ContainsFunc(peers, func(peer networkingv1.NetworkPolicyPeer) bool {
		switch {
		case peer.IPBlock != nil:
			return within(peer.IPBlock.CIDR, other.address) &&
				!slices.ContainsFunc(peer.IPBlock.Except, func(r string) bool { return within(r, other.address) })
		case other.namespace == "":
			return false
		case peer.NamespaceSelector == nil && other.namespace != namespace:
			return false
		case peer.NamespaceSelector != nil &&
			!selects(peer.NamespaceSelector, map[string]string{corev1.LabelMetadataName: other.namespace}):
			return false
		}
		return peer.PodSelector == nil || selects(peer.PodSelector, other.labels)
	})
}

func within(block string, address netip.Addr) bool {
	return netip.MustParsePrefix(block).Contains(address)
}

// reaches reports whether a rule's ports include p. A rule without ports includes all. Port names
// are not supported; the chart has none.
func reaches(ports []networkingv1.NetworkPolicyPort, p port) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, func(r networkingv1.NetworkPolicyPort) bool {
		protocol := corev1.ProtocolTCP
		if r.Protocol != nil {
			protocol = *r.Protocol
		}
		return protocol == p.protocol && (r.Port == nil || r.Port.IntVal == p.number)
	})
}

func selects(s *metav1.LabelSelector, of map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		panic(err)
	}
	return selector.Matches(labels.Set(of))
}
