package charts_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
)

// cluster is a cluster with some objects, for the function lookup of templates.
type cluster struct{ client dynamic.Interface }

func newCluster(secrets map[string][]string) cluster {
	object := func(kind, name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: values{
			"apiVersion": "v1", "kind": kind, "metadata": values{"name": name, "namespace": namespace},
		}}
	}
	objects := []runtime.Object{object("ServiceAccount", "default")}
	for name, keys := range secrets {
		secret, data := object("Secret", name), values{}
		secret.SetResourceVersion("17")
		for _, key := range keys {
			data[key] = "eA=="
		}
		secret.Object["data"] = data
		objects = append(objects, secret)
	}
	return cluster{fake.NewSimpleDynamicClient(runtime.NewScheme(), objects...)}
}

func (c cluster) GetClientFor(_, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	resource := map[string]string{"Secret": "secrets", "ServiceAccount": "serviceaccounts"}[kind]
	return c.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}), true, nil
}

// install renders the chart like helm install in the cluster.
func (c cluster) install(t *testing.T, given values) error {
	t.Helper()
	_, err := c.render(t, given)
	return err
}

func (c cluster) render(t *testing.T, given values) (map[string]string, error) {
	t.Helper()
	all, err := chartutil.ToRenderValues(load(t), given,
		chartutil.ReleaseOptions{Name: release, Namespace: namespace, IsInstall: true}, nil)
	require.NoError(t, err)
	return engine.RenderWithClientProvider(load(t), all, c)
}

// TestMissingSecretsAreNamedAtOnce checks the message about Secrets that do not exist and those
// that lack keys.
func TestMissingSecretsAreNamedAtOnce(t *testing.T) {
	complete := func() map[string][]string {
		tokens := []string{"OPPORTUNITY_PEER_TOKENS", "OPPORTUNITY_CALLER_TOKENS"}
		return map[string][]string{
			"opportunity-gateway": {"OPPORTUNITY_PEER_TOKENS", "OPPORTUNITY_REDIS_URL", "OPPORTUNITY_KEY_PEPPERS"},
			"opportunity-catalog": append(tokens, "OPPORTUNITY_DATABASE_URL"),
			"opportunity-history": append(tokens, "OPPORTUNITY_DATABASE_URL"),
			"opportunity-authquota": append(tokens, "OPPORTUNITY_DATABASE_URL", "OPPORTUNITY_REDIS_URL",
				"OPPORTUNITY_KEY_PEPPERS", "OPPORTUNITY_ENCRYPTION_KEYS", "OPPORTUNITY_SMTP_URL"),
			"opportunity-billing": append(tokens, "OPPORTUNITY_DATABASE_URL", "OPPORTUNITY_STRIPE_API_KEY",
				"OPPORTUNITY_STRIPE_WEBHOOK_SECRETS"),
		}
	}
	files, err := newCluster(complete()).render(t, least())
	require.NoError(t, err)
	require.Contains(t, files["opportunity/templates/catalog/deployment.yaml"],
		`opportunity.internal/secret-version: "17"`, "a changed Secret rolls the pods")

	lacking := complete()
	delete(lacking, "opportunity-catalog")
	lacking["opportunity-gateway"] = []string{"OPPORTUNITY_REDIS_URL"}
	err = newCluster(lacking).install(t, with("history.migrateSecretName", "history-owner"))
	require.ErrorContains(t, err, `these Secrets of the namespace data lack keys:
history-owner: OPPORTUNITY_DATABASE_URL
opportunity-catalog: OPPORTUNITY_CALLER_TOKENS, OPPORTUNITY_DATABASE_URL, OPPORTUNITY_PEER_TOKENS
opportunity-gateway: OPPORTUNITY_KEY_PEPPERS, OPPORTUNITY_PEER_TOKENS
See docs/operators/kubernetes.md#secrets`)

	sandbox := complete()
	sandbox["opportunity-billing"] = sandbox["opportunity-billing"][:3]
	require.ErrorContains(t, newCluster(sandbox).install(t, least()),
		"opportunity-billing: OPPORTUNITY_STRIPE_API_KEY, OPPORTUNITY_STRIPE_WEBHOOK_SECRETS")
	require.NoError(t, newCluster(sandbox).install(t, with("billing.env.OPPORTUNITY_BILLING_PROCESSOR", "sandbox")))
	delete(sandbox, "opportunity-billing")
	sandbox["opportunity-authquota"] = sandbox["opportunity-authquota"][1:] // it calls only billing
	require.NoError(t, newCluster(sandbox).install(t, with("billing.enabled", false)))

	shared := least()
	for _, service := range services {
		set(shared, service+".secretName", "one")
	}
	err = newCluster(nil).install(t, shared)
	require.ErrorContains(t, err, "one: OPPORTUNITY_CALLER_TOKENS, OPPORTUNITY_DATABASE_URL, OPPORTUNITY_ENCRYPTION_KEYS")
}
