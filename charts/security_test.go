package charts_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// TestRestrictedPodSecurity runs the checks of the admission plugin on every pod.
func TestRestrictedPodSecurity(t *testing.T) {
	checks, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	require.NoError(t, err)
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	bare := corev1.PodSpec{Containers: []corev1.Container{{Name: "bare", Image: "bare"}}}
	require.False(t, policy.AggregateCheckResults(checks.EvaluatePod(restricted, &metav1.ObjectMeta{}, &bare)).Allowed,
		"the checks must reject a bare pod")

	eachCase(t, func(t *testing.T, all []manifest) {
		require.NotEmpty(t, pods(all))
		for _, p := range pods(all) {
			result := policy.AggregateCheckResults(checks.EvaluatePod(restricted, &p.meta, &p.spec))
			require.True(t, result.Allowed, "%s: %s", p.owner, result.ForbiddenDetail())
		}
	})
}

// TestPodsHaveMinimalAccess checks restrictions beyond the restricted standard.
func TestPodsHaveMinimalAccess(t *testing.T) {
	eachCase(t, func(t *testing.T, all []manifest) {
		for _, p := range pods(all) {
			require.False(t, *p.spec.AutomountServiceAccountToken, p.owner)
			require.False(t, *p.spec.EnableServiceLinks, p.owner)
			require.NotEmpty(t, p.spec.ServiceAccountName, p.owner)
			require.Len(t, p.spec.Containers, 1, p.owner)
			c := p.container
			require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem, p.owner)
			require.Empty(t, c.Command, "%s: must use the image's entrypoint", p.owner)
			require.False(t, c.Resources.Limits.Memory().IsZero(), p.owner)
			require.False(t, c.Resources.Requests.Memory().IsZero(), p.owner)
			require.False(t, c.Resources.Requests.Cpu().IsZero(), p.owner)
			require.True(t, c.Resources.Limits.Cpu().IsZero(), "%s: a CPU limit would slow responses down", p.owner)
		}
		for _, account := range of[*corev1.ServiceAccount](all) {
			require.False(t, *account.AutomountServiceAccountToken, account.Name)
		}
	})
}

// TestServiceAccountsPrecedeTheirPods checks that the service account of a hook is a hook of the
// same events with a lower weight.
func TestServiceAccountsPrecedeTheirPods(t *testing.T) {
	eachCase(t, func(t *testing.T, all []manifest) {
		for _, p := range pods(all) {
			account := named[*corev1.ServiceAccount](t, all, p.spec.ServiceAccountName)
			if strings.HasPrefix(p.owner, "Job ") {
				require.Equal(t, "pre-install,pre-upgrade", account.Annotations["helm.sh/hook"], p.owner)
				require.Equal(t, "-10", account.Annotations["helm.sh/hook-weight"], p.owner)
			} else {
				require.Empty(t, account.Annotations["helm.sh/hook"], p.owner)
			}
		}
	})
}

// TestJobsHaveOnlyDatabaseSecret checks that the link checker and the migrations have no secret but
// the URL of their database, and helm test none but an operator token.
func TestJobsHaveOnlyDatabaseSecret(t *testing.T) {
	given := set(least(), "catalog.migrateSecretName", "catalog-owner")
	seen := map[string]string{}
	for _, p := range pods(rendered(t, given)) {
		c := p.container
		if p.serves {
			continue
		}
		require.Empty(t, c.EnvFrom, p.owner)
		var secrets []string
		for _, e := range c.Env {
			if e.ValueFrom != nil {
				secrets = append(secrets, e.ValueFrom.SecretKeyRef.Name+"/"+e.ValueFrom.SecretKeyRef.Key)
			}
		}
		seen[p.owner] = strings.Join(secrets, " ")
	}
	require.Equal(t, map[string]string{
		"Job opportunity-catalog-migrate":         "catalog-owner/OPPORTUNITY_DATABASE_URL",
		"Job opportunity-history-migrate":         "opportunity-history/OPPORTUNITY_DATABASE_URL",
		"Job opportunity-authquota-migrate":       "opportunity-authquota/OPPORTUNITY_DATABASE_URL",
		"Job opportunity-billing-migrate":         "opportunity-billing/OPPORTUNITY_DATABASE_URL",
		"CronJob opportunity-history-check-links": "opportunity-history/OPPORTUNITY_DATABASE_URL",
		"CronJob opportunity-billing-reconcile":   "opportunity-billing/OPPORTUNITY_DATABASE_URL opportunity-billing/OPPORTUNITY_STRIPE_API_KEY",
		"Pod opportunity-test":                    "opportunity-operator/OPPORTUNITY_OPERATOR_TOKEN",
	}, seen)
}
