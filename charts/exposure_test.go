package charts_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// TestOnlyThePublicPortIsExposed checks that an Ingress, an HTTPRoute and a load balancer expose
// only the gateway's public port.
func TestOnlyThePublicPortIsExposed(t *testing.T) {
	eachCase(t, func(t *testing.T, all []manifest) {
		for _, s := range of[*corev1.Service](all) {
			if s.Name == "opportunity-gateway" {
				require.Len(t, s.Spec.Ports, 1)
				require.Equal(t, "http", s.Spec.Ports[0].TargetPort.String())
			} else {
				require.Equal(t, corev1.ServiceTypeClusterIP, s.Spec.Type, s.Name)
			}
		}
		public := named[*corev1.Service](t, all, "opportunity-gateway").Spec.Ports[0]
		for _, i := range of[*networkingv1.Ingress](all) {
			require.Nil(t, i.Spec.DefaultBackend)
			for _, rule := range i.Spec.Rules {
				require.Equal(t, "data.example.com", rule.Host)
				for _, path := range rule.HTTP.Paths {
					require.Equal(t, "opportunity-gateway", path.Backend.Service.Name)
					require.Equal(t, public.Name, path.Backend.Service.Port.Name)
				}
			}
		}
		for _, r := range of[*gatewayv1.HTTPRoute](all) {
			require.Equal(t, []gatewayv1.Hostname{"data.example.com"}, r.Spec.Hostnames)
			for _, rule := range r.Spec.Rules {
				for _, backend := range rule.BackendRefs {
					require.Equal(t, "opportunity-gateway", string(backend.Name))
					require.EqualValues(t, public.Port, *backend.Port)
				}
			}
		}
	})
}

// TestServicesFindTheirPods checks that each Service selects the pods of one Deployment, never a
// job, on an existing port.
func TestServicesFindTheirPods(t *testing.T) {
	eachCase(t, func(t *testing.T, all []manifest) {
		for _, s := range of[*corev1.Service](all) {
			found := slices.DeleteFunc(pods(all), func(p pod) bool { return !matches(s.Spec.Selector, p.meta.Labels) })
			require.Len(t, found, 1, s.Name)
			require.True(t, found[0].serves, "%s selects %s", s.Name, found[0].owner)
			for _, port := range s.Spec.Ports {
				require.True(t, slices.ContainsFunc(found[0].container.Ports, func(p corev1.ContainerPort) bool {
					return p.Name == port.TargetPort.String()
				}), "%s: port %s", s.Name, port.Name)
			}
		}
	})
}

func matches(selector, of map[string]string) bool {
	return labels.SelectorFromSet(selector).Matches(labels.Set(of))
}
