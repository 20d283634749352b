package charts_test

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

func seconds(t *testing.T, s string) int64 {
	t.Helper()
	d, err := time.ParseDuration(s)
	require.NoError(t, err)
	return int64(d / time.Second)
}

// serviceDeployments returns the Deployments of the services: all but that of the desk.
func serviceDeployments(all []manifest) []*appsv1.Deployment {
	return slices.DeleteFunc(of[*appsv1.Deployment](all),
		func(d *appsv1.Deployment) bool { return d.Name == "opportunity-desk" })
}

// TestUpgradesKeepCapacity checks that an upgrade never has fewer ready pods than configured, that
// draining a node evicts one pod at a time, and the time before Kubernetes kills a pod: a stopping
// service serves for its grace period, drains, and then needs a few seconds to save its state.
func TestUpgradesKeepCapacity(t *testing.T) {
	eachCase(t, func(t *testing.T, all []manifest) {
		for _, d := range serviceDeployments(all) {
			require.Equal(t, appsv1.RollingUpdateDeploymentStrategyType, d.Spec.Strategy.Type)
			require.Equal(t, "0", d.Spec.Strategy.RollingUpdate.MaxUnavailable.String(), d.Name)
			p := podOf(t, all, "Deployment "+d.Name)
			require.Equal(t, "/readyz", p.container.ReadinessProbe.HTTPGet.Path, d.Name)
			require.Equal(t, "operations", p.container.ReadinessProbe.HTTPGet.Port.String(), d.Name)
			for _, alive := range []*corev1.Probe{p.container.StartupProbe, p.container.LivenessProbe} {
				require.Equal(t, "/livez", alive.HTTPGet.Path, "%s: a pod that waits for migrations must not be killed", d.Name)
			}
			budget := named[*policyv1.PodDisruptionBudget](t, all, d.Name)
			require.Equal(t, d.Spec.Selector, budget.Spec.Selector, d.Name)
			require.Equal(t, "1", budget.Spec.MaxUnavailable.String(), d.Name)
			for _, spread := range p.spec.TopologySpreadConstraints {
				require.Equal(t, d.Spec.Selector, spread.LabelSelector, d.Name)
			}
			require.True(t, matches(d.Spec.Selector.MatchLabels, p.meta.Labels), d.Name)
			grace := seconds(t, p.environment["OPPORTUNITY_SHUTDOWN_GRACE"])
			drain := seconds(t, p.environment["OPPORTUNITY_SHUTDOWN_DRAIN"])
			require.GreaterOrEqual(t, grace, int64(3), "%s: nodes need a second or two to remove the endpoint", d.Name)
			require.Greater(t, drain, int64(10), "%s: the gateway waits ten seconds for a response", d.Name)
			require.GreaterOrEqual(t, *p.spec.TerminationGracePeriodSeconds, grace+drain+10, d.Name)
		}
		for _, h := range of[*autoscalingv2.HorizontalPodAutoscaler](all) {
			require.Nil(t, named[*appsv1.Deployment](t, all, h.Spec.ScaleTargetRef.Name).Spec.Replicas,
				"an upgrade must not reset the autoscaler's replicas")
		}
	})
}

// TestConfigurationChangesRollPods checks that a value changes the template of a pod if and only if
// the pod reads it at start.
func TestConfigurationChangesRollPods(t *testing.T) {
	for _, c := range []struct {
		path  string
		value any
		rolls []string
	}{
		{"catalog.env.OPPORTUNITY_DATABASE_MAX_CONNECTIONS", "20", []string{"catalog"}},
		{"env.OPPORTUNITY_LOG_LEVEL", "DEBUG", services},
		{"publicURL", "https://other.example.com", services},
		{"mailFrom", "other@example.com", []string{"authquota"}},
		{"billing.enabled", false, []string{"authquota", "gateway"}},
		{"secretsRevision", "2", services},
		{"shutdown.graceSeconds", 9, services},
		{"image.tag", "2", services},
		{"history.image", "x:2", []string{"history"}},
		{"history.secretName", "other", []string{"history"}},
		{"trustedCA.configMapName", "ca", services},
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

// TestMigrationsComeFirst checks that each service with a database has a migration job that runs
// after its network policy and before the pods of the release.
func TestMigrationsComeFirst(t *testing.T) {
	eachCase(t, func(t *testing.T, all []manifest) {
		jobs := of[*batchv1.Job](all)
		require.Len(t, jobs, len(serviceDeployments(all))-1, "all services but the gateway have a database")
		for _, j := range jobs {
			require.Equal(t, "pre-install,pre-upgrade", j.Annotations["helm.sh/hook"], j.Name)
			require.Equal(t, "0", j.Annotations["helm.sh/hook-weight"], j.Name)
			require.Equal(t, "before-hook-creation,hook-succeeded", j.Annotations["helm.sh/hook-delete-policy"],
				"failed jobs must stay, for their logs")
			require.Equal(t, []string{"migrate"}, j.Spec.Template.Spec.Containers[0].Args)
			require.Contains(t, j.Spec.Template.Spec.Containers[0].Image,
				"opportunity/"+strings.TrimSuffix(strings.TrimPrefix(j.Name, "opportunity-"), "-migrate"))
		}
		for _, m := range all {
			if m.GetName() == "opportunity-migrate" {
				require.Equal(t, "-10", m.GetAnnotations()["helm.sh/hook-weight"], m.Kind)
			}
		}
	})
}

// TestCronJobs checks that runs do not overlap, and that the link checker has enough time to stop.
func TestCronJobs(t *testing.T) {
	all := rendered(t, least())
	require.Len(t, of[*batchv1.CronJob](all), 2)
	for _, c := range of[*batchv1.CronJob](all) {
		require.Equal(t, batchv1.ForbidConcurrent, c.Spec.ConcurrencyPolicy, c.Name)
		require.Equal(t, "Etc/UTC", *c.Spec.TimeZone, c.Name)
	}
	links := podOf(t, all, "CronJob opportunity-history-check-links")
	require.GreaterOrEqual(t, *links.spec.TerminationGracePeriodSeconds, int64(30))
	require.Equal(t, []string{"check-links"}, links.container.Args)
	require.Equal(t, []string{"reconcile"}, podOf(t, all, "CronJob opportunity-billing-reconcile").container.Args)
}

func TestImages(t *testing.T) {
	digest, version := "sha256:"+strings.Repeat("0", 64), load(t).AppVersion()
	for want, image := range map[string]values{
		"opportunity/authquota:" + version:                {},
		"opportunity/authquota:9":                         {"tag": "9"},
		"r.example/x/opportunity/authquota:9":             {"tag": "9", "registry": "r.example/x"},
		"opportunity/authquota:" + version + "@" + digest: {"digests": values{"authquota": digest}},
		"opportunity/authquota:8":                         {"digests": values{"authquota": digest}, "tag": "8"}, // another version
	} {
		require.Equal(t, want, podOf(t, rendered(t, with("image", image)), "Deployment opportunity-authquota").container.Image)
	}
	given := set(set(withDesk(), "authquota.image", "y@sha256:0"), "test.image", "command@sha256:0")
	for _, p := range pods(rendered(t, set(given, "image.tag", "9"))) {
		command := p.owner == "Deployment opportunity-desk" || p.owner == "Pod opportunity-test"
		require.Equal(t, command, p.container.Image == "command@sha256:0", p.owner)
		require.Equal(t, strings.Contains(p.owner, "authquota"), p.container.Image == "y@sha256:0", p.owner)
	}
}

// takesAway matches statements that break reads or writes of the previous version.
var takesAway = regexp.MustCompile(`(?i)\b(DROP\s+(TABLE|COLUMN|VIEW)|RENAME\s+(TO|COLUMN)|ALTER\s+(COLUMN\s+)?\w+\s+(SET\s+DATA\s+)?TYPE|SET\s+NOT\s+NULL)\b|ADD\s+COLUMN\s+[^;,]*\bNOT\s+NULL\b[^;,]*`)

// contract matches the statement that the previous version no longer needs what a migration
// removes: "-- Contract: reason".
var contract = regexp.MustCompile(`(?m)^-- Contract: \S`)

// TestPreviousVersionWorksWithNewSchema exists because migrations run while pods of the previous
// version serve, and a rollback keeps them.
func TestPreviousVersionWorksWithNewSchema(t *testing.T) {
	files := glob(t, "../services/*/internal/*/migrations/*/*.sql")
	require.GreaterOrEqual(t, len(files), 8, "four services, two dialects")
	for _, file := range files {
		text := read(t, file)
		require.True(t, contract.MatchString(text) || !breaks(text),
			"%s removes something that the previous version may need: "+
				"do it a release later and say in a line \"-- Contract: why it is no longer needed\"", file)
	}
	for _, statement := range []string{
		"ALTER TABLE a DROP COLUMN b;", "drop table a;", "ALTER TABLE a RENAME COLUMN b TO c;",
		"ALTER TABLE a ALTER COLUMN b TYPE text;", "ALTER TABLE a ALTER COLUMN b SET NOT NULL;",
		"ALTER TABLE a ADD COLUMN b text NOT NULL;",
	} {
		require.True(t, breaks(statement), statement)
	}
	require.False(t, breaks("ALTER TABLE a ADD COLUMN b text NOT NULL DEFAULT '', ADD COLUMN c text; DROP TRIGGER d;"))
}

func breaks(migration string) bool {
	return slices.ContainsFunc(takesAway.FindAllString(migration, -1), func(statement string) bool {
		return !strings.Contains(strings.ToUpper(statement), "DEFAULT")
	})
}

func withDesk() values {
	return with("desk", values{"enabled": true, "publicURL": "https://desk.example.com"})
}

// TestDeskHasOnePodAndNoSecret checks that two pods never serve at once, because each rejects the
// sessions of the other, and that a page can only do what the operator token of its visitor allows.
func TestDeskHasOnePodAndNoSecret(t *testing.T) {
	desk := named[*appsv1.Deployment](t, rendered(t, withDesk()), "opportunity-desk")
	require.EqualValues(t, 1, *desk.Spec.Replicas)
	require.Equal(t, appsv1.RecreateDeploymentStrategyType, desk.Spec.Strategy.Type)
	c := desk.Spec.Template.Spec.Containers[0]
	require.Empty(t, c.EnvFrom)
	require.Equal(t, []corev1.EnvVar{{Name: "GOMEMLIMIT", Value: "483183820"}}, c.Env)
	require.Equal(t, []string{
		"desk", "--listen=:8082", "--public-url=https://desk.example.com",
		"--admin-url=http://opportunity-gateway-admin:8081",
	}, c.Args)
	for _, probe := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		require.Equal(t, "/readyz", probe.HTTPGet.Path)
		require.Equal(t, c.Ports[0].Name, probe.HTTPGet.Port.String())
	}
}

func TestHelmTestMakesCallsByDefault(t *testing.T) {
	test := podOf(t, rendered(t, with("test.secretName", "robot")), "Pod opportunity-test")
	require.Contains(t, test.container.Args, "--calls")
	require.Equal(t, "robot", test.container.Env[1].ValueFrom.SecretKeyRef.Name)
	require.NotEmpty(t, test.environment["OPPORTUNITY_ACTOR"], "the command issues no key without a name for the audit log")
	quiet := podOf(t, rendered(t, with("test.calls", false)), "Pod opportunity-test").container
	require.NotContains(t, quiet.Args, "--calls")
	require.Empty(t, quiet.Env)
}

func monitored(t *testing.T) values {
	t.Helper()
	v := with("monitoring.serviceMonitor.enabled", true)
	set(v, "monitoring.prometheusRule", values{"enabled": true, "runbookBaseURL": "https://git.example.com/docs/runbooks"})
	return set(v, "monitoring.dashboards.enabled", true)
}

// TestEveryServiceIsScraped checks that each service is scraped as a job with its name, and only on
// operations ports.
func TestEveryServiceIsScraped(t *testing.T) {
	all := rendered(t, monitored(t))
	monitors := of[*monitoringv1.ServiceMonitor](all)
	require.Len(t, monitors, 1)
	spec := monitors[0].Spec
	require.Len(t, spec.Endpoints, 1)
	var scraped []string
	for _, s := range of[*corev1.Service](all) {
		if !matches(spec.Selector.MatchLabels, s.Labels) {
			continue
		}
		require.Equal(t, spec.Endpoints[0].Port, s.Spec.Ports[0].Name)
		require.Len(t, s.Spec.Ports, 1, s.Name)
		require.EqualValues(t, 9090, s.Spec.Ports[0].Port, s.Name)
		require.True(t, s.Spec.PublishNotReadyAddresses, "%s: unready pods must be scraped", s.Name)
		scraped = append(scraped, s.Labels[spec.JobLabel])
	}
	require.ElementsMatch(t, services, scraped)
}

// TestAlertsAndDashboardsAreComplete checks that the objects have all of rules/ and dashboards/,
// and that alerts link to their runbooks.
func TestAlertsAndDashboardsAreComplete(t *testing.T) {
	all := rendered(t, monitored(t))
	rules := of[*monitoringv1.PrometheusRule](all)
	require.Len(t, rules, 1)
	require.GreaterOrEqual(t, len(rules[0].Spec.Groups), len(glob(t, chartDir+"/rules/*.yaml")))
	alerts := 0
	standard := of[*monitoringv1.PrometheusRule](rendered(t, with("monitoring.prometheusRule.enabled", true)))
	for g, group := range rules[0].Spec.Groups {
		for i, r := range group.Rules {
			if r.Alert == "" {
				continue
			}
			alerts++
			require.Equal(t, "https://git.example.com/docs/runbooks/"+r.Alert+".md", r.Annotations["runbook_url"])
			require.Equal(t, "https://data.example.com/docs/runbooks/"+r.Alert+".md",
				standard[0].Spec.Groups[g].Rules[i].Annotations["runbook_url"])
			require.NotContains(t, r.Annotations["description"], "<no value>", "Prometheus must expand it, not Helm")
		}
	}
	require.Greater(t, alerts, 10)

	for _, file := range glob(t, chartDir+"/dashboards/*.json") {
		name := filepath.Base(file)
		board := named[*corev1.ConfigMap](t, all, "opportunity-dashboard-"+strings.TrimSuffix(name, ".json"))
		require.Equal(t, "1", board.Labels["grafana_dashboard"])
		require.True(t, json.Valid([]byte(board.Data[name])), name)
	}
}

// TestInstalledServicesHaveDownAlerts checks that each installed service has an alert for its
// absence, and other services have none.
func TestInstalledServicesHaveDownAlerts(t *testing.T) {
	absent := regexp.MustCompile(`absent\(opportunity_service_info\{service="(\w+)"\}\)`)
	for sells, want := range map[bool][]string{true: services, false: {"authquota", "catalog", "gateway", "history"}} {
		var found []string
		for _, m := range rendered(t, set(monitored(t), "billing.enabled", sells)) {
			for _, match := range absent.FindAllStringSubmatch(m.text, -1) {
				found = append(found, match[1])
			}
		}
		require.ElementsMatch(t, want, found)
	}
}
