package charts_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

func environment(p pod) map[string]string {
	out := map[string]string{}
	for _, e := range p.spec.Containers[0].Env {
		out[e.Name] = e.Value
	}
	return out
}

func seconds(t *testing.T, s string) int64 {
	t.Helper()
	d, err := time.ParseDuration(s)
	require.NoError(t, err)
	return int64(d / time.Second)
}

// TestPodsStopInTheTimeThatTheyHave: a service that stops serves on for its grace, drains, and then needs some seconds to write what
// it holds. Kubernetes must not kill it before.
func TestPodsStopInTheTimeThatTheyHave(t *testing.T) {
	eachCase(t, func(t *testing.T, all []manifest) {
		for _, p := range pods(all) {
			if !p.serves {
				continue
			}
			env := environment(p)
			grace, drain := seconds(t, env["OPPORTUNITY_SHUTDOWN_GRACE"]), seconds(t, env["OPPORTUNITY_SHUTDOWN_DRAIN"])
			require.GreaterOrEqual(t, grace, int64(3), "%s: a node learns of it after a second or two", p.owner)
			require.Greater(t, drain, int64(10), "%s: the gateway waits ten seconds for an answer", p.owner)
			require.GreaterOrEqual(t, *p.spec.TerminationGracePeriodSeconds, grace+drain+10, p.owner)
		}
	})
}

// TestUpgradesLoseNothing: there is never one pod less than there should be, a pod counts when it is ready, and a drained node takes
// one pod at a time.
func TestUpgradesLoseNothing(t *testing.T) {
	eachCase(t, func(t *testing.T, all []manifest) {
		for _, d := range of[*appsv1.Deployment](all) {
			require.Equal(t, appsv1.RollingUpdateDeploymentStrategyType, d.Spec.Strategy.Type)
			require.Equal(t, "0", d.Spec.Strategy.RollingUpdate.MaxUnavailable.String(), d.Name)
			c := d.Spec.Template.Spec.Containers[0]
			require.Equal(t, "/readyz", c.ReadinessProbe.HTTPGet.Path, d.Name)
			for _, alive := range []string{c.StartupProbe.HTTPGet.Path, c.LivenessProbe.HTTPGet.Path} {
				require.Equal(t, "/livez", alive, "%s: who waits for its schema is not to be killed", d.Name)
			}
			require.Equal(t, "operations", c.ReadinessProbe.HTTPGet.Port.String(), d.Name)
			budget := named[*policyv1.PodDisruptionBudget](t, all, d.Name)
			require.Equal(t, d.Spec.Selector, budget.Spec.Selector, d.Name)
			require.Equal(t, "1", budget.Spec.MaxUnavailable.String(), d.Name)
			for _, spread := range d.Spec.Template.Spec.TopologySpreadConstraints {
				require.Equal(t, d.Spec.Selector, spread.LabelSelector, d.Name)
			}
			require.True(t, matches(d.Spec.Selector.MatchLabels, d.Spec.Template.Labels), d.Name)
		}
		for _, h := range of[*autoscalingv2.HorizontalPodAutoscaler](all) {
			require.Nil(t, named[*appsv1.Deployment](t, all, h.Spec.ScaleTargetRef.Name).Spec.Replicas, "each upgrade would undo what the load decided")
		}
	})
	require.EqualValues(t, 3, *named[*appsv1.Deployment](t, rendered(t, with("history.replicas", 3)), "opportunity-history").Spec.Replicas)
}

// TestWhatRollsPods: whatever a pod reads when it starts changes its template, and what it does not read does not.
func TestWhatRollsPods(t *testing.T) {
	everybody := services
	for _, c := range []struct {
		path  string
		value any
		rolls []string
	}{
		{"catalog.env.OPPORTUNITY_DATABASE_MAX_CONNECTIONS", "20", []string{"catalog"}},
		{"env.OPPORTUNITY_LOG_LEVEL", "DEBUG", everybody},
		{"publicURL", "https://other.example.com", everybody},
		{"mailFrom", "other@example.com", []string{"authquota"}},
		{"billing.enabled", false, []string{"authquota", "gateway"}},
		{"secretsRevision", "2", everybody},
		{"shutdown.graceSeconds", 9, everybody},
		{"image.tag", "2", everybody},
		{"history.image", "x:2", []string{"history"}},
		{"history.secretName", "other", []string{"history"}},
		{"trustedCA.configMapName", "ca", everybody},
		{"gateway.termsConfigMapName", "ours", []string{"gateway"}},
		{"gateway.replicas", 5, nil},
		{"history.checkLinks.schedule", "0 * * * *", nil},
		{"networkPolicy.enabled", false, nil},
		{"monitoring.serviceMonitor.enabled", true, nil},
	} {
		before, after := templates(t, least()), templates(t, with(c.path, c.value))
		var rolled []string
		for _, service := range services {
			if now, there := after[service]; there && now != before[service] {
				rolled = append(rolled, service)
			}
		}
		require.Equal(t, c.rolls, rolled, c.path)
	}
}

func templates(t *testing.T, given values) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, d := range of[*appsv1.Deployment](rendered(t, given)) {
		text, err := yaml.Marshal(d.Spec.Template)
		require.NoError(t, err)
		out[strings.TrimPrefix(d.Name, "opportunity-")] = string(text)
	}
	return out
}

// TestMigrationsComeFirst: a job for each service with a schema, before anything of the version runs, and after its policy.
func TestMigrationsComeFirst(t *testing.T) {
	eachCase(t, func(t *testing.T, all []manifest) {
		jobs := of[*batchv1.Job](all)
		require.Len(t, jobs, len(of[*appsv1.Deployment](all))-1, "the gateway keeps nothing")
		for _, j := range jobs {
			require.Equal(t, "pre-install,pre-upgrade", j.Annotations["helm.sh/hook"], j.Name)
			require.Equal(t, "0", j.Annotations["helm.sh/hook-weight"], j.Name)
			require.Equal(t, "before-hook-creation,hook-succeeded", j.Annotations["helm.sh/hook-delete-policy"], "one that failed can be read")
			require.Equal(t, []string{"migrate"}, j.Spec.Template.Spec.Containers[0].Args)
			require.Equal(t, "opportunity-"+imageOf(t, j.Spec.Template.Spec.Containers[0].Image)+"-migrate", j.Name)
		}
		for _, m := range all {
			if m.GetName() == "opportunity-migrate" {
				require.Equal(t, "-10", m.GetAnnotations()["helm.sh/hook-weight"], m.Kind)
			}
		}
	})
}

func imageOf(t *testing.T, reference string) string {
	t.Helper()
	_, after, found := strings.Cut(reference, "opportunity/")
	require.True(t, found, reference)
	name, _, _ := strings.Cut(strings.NewReplacer("@", ":").Replace(after), ":")
	return name
}

// TestJobsThatRecur: one at a time, and with the time that the link checker needs to end.
func TestJobsThatRecur(t *testing.T) {
	all := rendered(t, least())
	require.Len(t, of[*batchv1.CronJob](all), 2)
	for _, c := range of[*batchv1.CronJob](all) {
		require.Equal(t, batchv1.ForbidConcurrent, c.Spec.ConcurrencyPolicy, c.Name)
		require.Equal(t, "Etc/UTC", *c.Spec.TimeZone, c.Name)
	}
	links := named[*batchv1.CronJob](t, all, "opportunity-history-check-links")
	require.GreaterOrEqual(t, *links.Spec.JobTemplate.Spec.Template.Spec.TerminationGracePeriodSeconds, int64(30))
	require.Equal(t, []string{"check-links"}, links.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Args)
	require.Equal(t, []string{"reconcile"}, named[*batchv1.CronJob](t, all, "opportunity-billing-reconcile").Spec.JobTemplate.Spec.Template.Spec.Containers[0].Args)
}

func TestImages(t *testing.T) {
	images := func(given values) string {
		return fmt.Sprint(pods(rendered(t, given))[0].spec.Containers[0].Image)
	}
	require.Equal(t, "opportunity/authquota:"+load(t).AppVersion(), images(least()))
	require.Equal(t, "opportunity/authquota:9", images(with("image.tag", "9")))
	require.Equal(t, "r.example/x/opportunity/authquota:9", images(set(with("image.tag", "9"), "image.registry", "r.example/x")))
	require.Equal(t, "y@sha256:0", images(set(with("image.tag", "9"), "authquota.image", "y@sha256:0")))
}
