package charts_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart"
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

func (c cluster) install(t *testing.T, given values) (files map[string]string, err error) {
	t.Helper()
	return renderFiles(t, release, given, func(all *chart.Chart, v chartutil.Values) (map[string]string, error) {
		return engine.RenderWithClientProvider(all, v, c)
	})
}

// TestMissingSecretsAreNamedAtOnce checks the message about Secrets that do not exist and those
// that lack keys.
func TestMissingSecretsAreNamedAtOnce(t *testing.T) {
	complete := func(without ...string) map[string][]string {
		secrets := map[string][]string{}
		for service, keys := range documentedSecrets(t, false) {
			secrets["opportunity-"+service] = slices.DeleteFunc(keys,
				func(key string) bool { return slices.Contains(without, service+"/"+key) })
		}
		return secrets
	}
	files, err := newCluster(complete()).install(t, least())
	require.NoError(t, err)
	require.Contains(t, files["opportunity/templates/catalog/deployment.yaml"],
		`opportunity.internal/secret-version: "17"`, "a changed Secret rolls the pods")

	lacking := complete()
	delete(lacking, "opportunity-catalog")
	lacking["opportunity-gateway"] = []string{"OPPORTUNITY_REDIS_URL"}
	sandbox := complete("billing/OPPORTUNITY_STRIPE_API_KEY", "billing/OPPORTUNITY_STRIPE_WEBHOOK_SECRETS")
	alone := complete("authquota/OPPORTUNITY_PEER_TOKENS") // it calls only billing
	delete(alone, "opportunity-billing")
	shared := least()
	for _, service := range services {
		set(shared, service+".secretName", "one")
	}
	for name, c := range map[string]struct {
		secrets map[string][]string
		given   values
		want    string // empty if none is missing
	}{
		"Secrets and keys": {lacking, with("history.migrateSecretName", "history-owner"),
			`these Secrets of the namespace data lack keys:
history-owner: OPPORTUNITY_DATABASE_URL
opportunity-catalog: OPPORTUNITY_CALLER_TOKENS, OPPORTUNITY_DATABASE_URL, OPPORTUNITY_PEER_TOKENS
opportunity-gateway: OPPORTUNITY_KEY_PEPPERS, OPPORTUNITY_PEER_TOKENS
See docs/operators/kubernetes.md#secrets`},
		"keys of the processor": {sandbox, least(),
			"opportunity-billing: OPPORTUNITY_STRIPE_API_KEY, OPPORTUNITY_STRIPE_WEBHOOK_SECRETS"},
		"sandbox":     {sandbox, with("billing.env.OPPORTUNITY_BILLING_PROCESSOR", "sandbox"), ""},
		"no billing":  {alone, with("billing.enabled", false), ""},
		"one for all": {nil, shared, "one: OPPORTUNITY_CALLER_TOKENS, OPPORTUNITY_DATABASE_URL, OPPORTUNITY_ENCRYPTION_KEYS"},
		"certificates": {map[string][]string{"opportunity-catalog-tls": {"ca.crt"}}, with("tls.mode", "required"),
			"\nopportunity-catalog-tls: tls.crt, tls.key\nopportunity-gateway: OPPORTUNITY_KEY_PEPPERS, OPPORTUNITY_PEER_TOKENS, " +
				"OPPORTUNITY_REDIS_URL\nopportunity-gateway-tls: ca.crt\n"}, // it needs no certificate of its own
	} {
		_, err := newCluster(c.secrets).install(t, c.given)
		if c.want == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, c.want, name)
		}
	}
}

// TestNotesSayHowToIssueTheFirstKey checks the commands that helm prints after an installation.
func TestNotesSayHowToIssueTheFirstKey(t *testing.T) {
	files, err := renderFiles(t, release, least(), engine.Render)
	require.NoError(t, err)
	notes := files["opportunity/templates/NOTES.txt"]
	for _, line := range []string{
		`Operators use the command opportunity, of this version: build it with "make build".`,
		"kubectl -n data port-forward service/opportunity-gateway-admin 8081:8081 &",
		"kubectl -n data get secret opportunity-operator",
		"opportunity listings publish --all --yes\n",
		`opportunity keys issue --tier free --use-case "first try"`,
		"Without a build, use it in a pod.",
		`"enableServiceLinks":false`, // the variables of service links look like misspelt settings
		"kubectl -n data exec -i opportunity -- /opportunity listings import - < FILE",
		"kubectl -n data exec opportunity -- /opportunity listings publish --all --yes\n",
	} {
		require.Contains(t, notes, line)
	}
}
