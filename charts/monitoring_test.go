package charts_test

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

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
	files, err := filepath.Glob(chartDir + "/rules/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	rules := of[*monitoringv1.PrometheusRule](all)
	require.Len(t, rules, 1)
	require.GreaterOrEqual(t, len(rules[0].Spec.Groups), len(files))
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

	files, err = filepath.Glob(chartDir + "/dashboards/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
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
