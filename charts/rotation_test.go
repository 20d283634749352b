package charts_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fakeKubectl stores the Secrets of a cluster in files, and a copy of them after each change.
const fakeKubectl = `#!/usr/bin/env bash
set -euo pipefail
cd "$CLUSTER"
echo "$*" >>arguments
case "$3 ${4:-}" in
"get deployments") cat deployments.json ;;
"get secrets") cat secrets.json ;;
"replace -f")
  jq -s '.[0].items as $old | .[1].items as $new
    | {items: [$old[] | .metadata.name as $name
      | ([$new[] | select(.metadata.name == $name)][0] // .)]}' secrets.json - >next.json
  mv next.json secrets.json
  cp secrets.json "state-$(ls | grep -c state-).json"
  ;;
"rollout "*) ;;
*) exit 1 ;;
esac
`

// secrets are the settings in Secrets, by the name of the Secret.
type secrets map[string]map[string]string

// kubectlCluster is a namespace with a Deployment and a Secret for each service.
type kubectlCluster struct {
	t       *testing.T
	folder  string
	readers map[string][]string // Secrets by service
	secrets secrets
}

func old(letter string) string { return strings.Repeat(letter, 32) }

func newKubectlCluster(t *testing.T) *kubectlCluster {
	return &kubectlCluster{t, t.TempDir(), map[string][]string{
		"gateway": {"gateway"}, "catalog": {"catalog"}, "history": {"history"}, "authquota": {"authquota"},
	}, secrets{
		"gateway": {"OPPORTUNITY_PEER_TOKENS": "catalog:" + old("a") + ",history:" + old("b") + ",authquota:" + old("c")},
		"catalog": {"OPPORTUNITY_PEER_TOKENS": "history:" + old("e"), "OPPORTUNITY_CALLER_TOKENS": "gateway:" + old("a") +
			", history:" + old("f")},
		"history": {"OPPORTUNITY_PEER_TOKENS": "catalog:" + old("f"), "OPPORTUNITY_CALLER_TOKENS": "gateway:" + old("b") +
			",catalog:" + old("e")},
		"authquota": {"OPPORTUNITY_CALLER_TOKENS": "gateway:" + old("c")},
	}}
}

func (c *kubectlCluster) write(name string, content any) {
	c.t.Helper()
	text, isText := content.(string)
	if !isText {
		encoded, err := json.Marshal(content)
		require.NoError(c.t, err)
		text = string(encoded)
	}
	require.NoError(c.t, os.WriteFile(filepath.Join(c.folder, name), []byte(text), 0o700))
}

// rotate runs scripts/rotate-secret, and returns its output and the Secrets before it and after
// each of its changes.
func (c *kubectlCluster) rotate(args ...string) (output string, states []secrets, err error) {
	c.t.Helper()
	var deployments, stored []any
	for service, names := range c.readers {
		var from []any
		for _, name := range names {
			from = append(from, values{"secretRef": values{"name": name}})
		}
		deployments = append(deployments, values{"metadata": values{"name": "opportunity-" + service}, "spec": values{
			"template": values{"spec": values{"containers": []any{values{"name": service, "envFrom": from}}}}}})
	}
	for name, settings := range c.secrets {
		s := corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{}}
		for setting, value := range settings {
			s.Data[setting] = []byte(value)
		}
		stored = append(stored, s)
	}
	c.write("deployments.json", values{"items": deployments})
	c.write("secrets.json", values{"items": stored})
	c.write("kubectl", fakeKubectl)
	script, err := filepath.Abs("../scripts/rotate-secret")
	require.NoError(c.t, err)
	cmd := exec.CommandContext(c.t.Context(), script, append([]string{"data"}, args...)...)
	cmd.Env = append(os.Environ(), "PATH="+c.folder+":"+os.Getenv("PATH"), "CLUSTER="+c.folder)
	out, failure := cmd.CombinedOutput()

	states = append(states, c.secrets)
	files, err := filepath.Glob(filepath.Join(c.folder, "state-*.json"))
	require.NoError(c.t, err)
	for _, file := range files {
		var list corev1.SecretList
		require.NoError(c.t, json.Unmarshal([]byte(read(c.t, file)), &list))
		state := secrets{}
		for _, s := range list.Items {
			state[s.Name] = map[string]string{}
			for setting, value := range s.Data {
				state[s.Name][setting] = string(value)
			}
		}
		states = append(states, state)
	}
	return string(out), states, failure
}

func entries(list string) (out [][2]string) {
	for entry := range strings.SplitSeq(list, ",") {
		if service, token, ok := strings.Cut(strings.TrimSpace(entry), ":"); ok {
			out = append(out, [2]string{service, token})
		}
	}
	return out
}

func (c *kubectlCluster) requireAccess(sender, receiver secrets, step int) {
	c.t.Helper()
	for caller, names := range c.readers {
		for _, peer := range entries(sender[names[0]]["OPPORTUNITY_PEER_TOKENS"]) {
			if settings, there := receiver[peer[0]]; there {
				require.Contains(c.t, entries(settings["OPPORTUNITY_CALLER_TOKENS"]), [2]string{caller, peer[1]},
					"step %d: %s calls %s", step, caller, peer[0])
			}
		}
	}
}

func TestTokensAreRotatedWithoutARejectedCall(t *testing.T) {
	c := newKubectlCluster(t)
	c.secrets["authquota"]["OPPORTUNITY_CALLER_TOKENS"] += ",billing:" + old("h") // billing runs elsewhere
	c.secrets["authquota"]["KEYSTORE"] = "not text: \xff\xfe\x00"
	c.readers["history"] = append(c.readers["history"], "database")
	c.secrets["database"] = map[string]string{"OPPORTUNITY_DATABASE_URL": "postgres://db"}
	out, states, err := c.rotate("OPPORTUNITY_PEER_TOKENS")
	require.NoError(t, err, out)
	require.Len(t, states, 4, out)
	// During each restart, processes with the Secrets before and after the change run side by side.
	for i := 1; i < len(states); i++ {
		for _, sender := range states[i-1 : i+1] {
			c.requireAccess(sender, states[i-1], i)
			c.requireAccess(sender, states[i], i)
		}
	}

	last := states[3]
	require.Equal(t, c.secrets["database"], last["database"])
	require.Equal(t, c.secrets["authquota"]["KEYSTORE"], last["authquota"]["KEYSTORE"])
	require.Contains(t, last["authquota"]["OPPORTUNITY_CALLER_TOKENS"], "billing:"+old("h"))
	arguments := read(t, filepath.Join(c.folder, "arguments"))
	seen := map[string]bool{}
	for _, service := range []string{"gateway", "catalog", "history"} {
		for _, e := range entries(last[service]["OPPORTUNITY_PEER_TOKENS"]) {
			require.Len(t, e[1], 64)
			require.False(t, seen[e[1]], "each pair has its own token")
			seen[e[1]] = true
			require.NotContains(t, arguments, e[1])
			require.NotContains(t, out, e[1])
		}
	}
	require.Len(t, seen, 5)
	require.NotRegexp(t, old("[abcef]"), fmt.Sprint(last))
}

// Each of these would end with services that reject each other.
func TestRotationChangesNothingIfItCannotSucceed(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(c *kubectlCluster)
		want    string
	}{
		"a service is missing": {func(c *kubectlCluster) { delete(c.readers, "gateway") },
			"no Deployment of gateway in the namespace data"},
		"a shared Secret": {func(c *kubectlCluster) { c.readers["gateway"] = []string{"catalog"} },
			"services share a Secret with tokens: give each service a Secret of its own; nothing was changed: catalog"},
		"no random bytes": {func(c *kubectlCluster) { c.write("openssl", "#!/bin/sh\nexit 1\n") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newKubectlCluster(t)
			c.prepare(cluster)
			out, states, err := cluster.rotate("OPPORTUNITY_PEER_TOKENS")
			require.Error(t, err)
			require.Contains(t, out, c.want)
			require.Len(t, states, 1, "nothing is changed")
		})
	}
}

func TestPepperIsAddedBeforeItIsUsed(t *testing.T) {
	c := newKubectlCluster(t)
	for _, name := range []string{"gateway", "authquota"} {
		c.secrets[name]["OPPORTUNITY_KEY_PEPPERS"] = old("p")
	}
	out, states, err := c.rotate("OPPORTUNITY_KEY_PEPPERS", "--keep")
	require.NoError(t, err, out)
	require.Len(t, states, 3)
	for i, position := range []int{1, 0} {
		peppers := strings.Split(states[i+1]["gateway"]["OPPORTUNITY_KEY_PEPPERS"], ",")
		require.Len(t, peppers, 2)
		require.Equal(t, old("p"), peppers[1-position])
		require.Equal(t, states[i+1]["gateway"]["OPPORTUNITY_KEY_PEPPERS"],
			states[i+1]["authquota"]["OPPORTUNITY_KEY_PEPPERS"])
	}
	require.Equal(t, c.secrets["catalog"], states[2]["catalog"])
}
