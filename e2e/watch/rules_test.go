package watch_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/stretchr/testify/require"

	"opportunity.internal/e2e/watch"
)

const (
	rulesDir      = "../../charts/opportunity/rules"
	dashboardsDir = "../../charts/opportunity/dashboards"
	runbooksDir   = "../../docs/runbooks"
)

func rules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	all, err := watch.Rules(rulesDir)
	require.NoError(t, err)
	return all
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

func pages(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(runbooksDir + "/Opportunity*.md") // others belong to no alert
	require.NoError(t, err)
	found := map[string]string{}
	for _, file := range files {
		found[strings.TrimSuffix(filepath.Base(file), ".md")] = read(t, file)
	}
	return found
}

// TestAlertsAndRunbooksMatch also checks the sections of each runbook and its row in the index.
func TestAlertsAndRunbooksMatch(t *testing.T) {
	pages := pages(t)
	index := read(t, runbooksDir+"/README.md")
	severities := map[string][]string{}
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		severities[r.Alert] = append(severities[r.Alert], r.Labels["severity"])
		require.Contains(t, []string{"critical", "warning"}, r.Labels["severity"], r.Alert)
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		require.NotEmpty(t, r.Annotations["description"], r.Alert)
		require.Equal(t, "https://data.example.com/docs/runbooks/"+r.Alert+".md", r.Annotations["runbook_url"])
	}
	require.Equal(t, slices.Sorted(maps.Keys(severities)), slices.Sorted(maps.Keys(pages)))
	for alert, text := range pages {
		require.True(t, strings.HasPrefix(text, "# "+alert+"\n"), alert)
		for _, section := range []string{"## What it means", "## How to check", "## What to do", "## When it is over"} {
			require.Contains(t, text, "\n"+section+"\n", alert)
		}
		require.NotEmpty(t, watch.Queries(text), alert)
		row := regexp.MustCompile(`(?m)^\| \[` + alert + `\]\(` + alert +
			`\.md\) \| ([a-z, ]+) \|`).FindStringSubmatch(index)
		require.NotNil(t, row, "the index has no row for "+alert)
		want := slices.Compact(slices.Sorted(slices.Values(severities[alert])))
		require.Equal(t, strings.Join(want, ", "), row[1], alert)
	}
}

// forms matches a block of commands for a cluster and the one for one machine, which must follow.
var forms = regexp.MustCompile("(?m)^ *In a cluster:\n\n *```sh\n([^`]+)```\n\n *On one machine:\n\n *```sh\n([^`]+)```$")

// TestRunbooksHaveCommandsForEachInstallation checks that each page has commands for a cluster and
// for one machine, and that commands of a cluster are only where it says so.
func TestRunbooksHaveCommandsForEachInstallation(t *testing.T) {
	all := pages(t)
	all["failover"] = read(t, runbooksDir+"/failover.md")
	ofCluster := regexp.MustCompile(`\b(kubectl|helm) `)
	for name, text := range all {
		pairs := forms.FindAllStringSubmatch(text, -1)
		require.NotEmpty(t, pairs, name)
		require.Len(t, pairs, strings.Count(text, "In a cluster:"), "%s: the other form must follow", name)
		for _, pair := range pairs {
			require.Regexp(t, ofCluster, pair[1], name)
			require.NotRegexp(t, ofCluster, pair[2], name)
		}
		if name != "failover" { // of Sentinels and CloudNativePG, which one machine does not have
			require.NotRegexp(t, ofCluster, forms.ReplaceAllString(text, ""), "%s: say how it is done on one machine, too", name)
		}
	}
}

// Every recorded series in an expression must have a recording rule, and every recording rule must
// be used.
func TestRecordedSeriesMatchRules(t *testing.T) {
	recorded, used := map[string]bool{"": true}, map[string]bool{"": true}
	use := func(expr string) {
		selectors, err := watch.Selectors(expr)
		require.NoError(t, err)
		for _, s := range selectors {
			if strings.Contains(s.Name, ":") {
				used[s.Name] = true
			}
		}
	}
	for _, r := range rules(t) {
		recorded[r.Record] = true
		use(r.Expr)
	}
	for _, text := range texts(t) {
		for _, query := range watch.Queries(text) {
			use(query)
		}
	}
	require.Equal(t, recorded, used)
}

func texts(t *testing.T) map[string]string {
	t.Helper()
	found := pages(t)
	for _, file := range []string{"../../docs/operators/slo.md", "../../docs/operators/observability.md"} {
		found[file] = read(t, file)
	}
	return found
}

// The queries in the page of the objectives must equal those of the rules.
func TestObjectivesMatchRules(t *testing.T) {
	queries := map[string]bool{}
	for _, q := range watch.Queries(read(t, "../../docs/operators/slo.md")) {
		queries[canonical(t, q)] = true
	}
	for _, record := range []string{"namespace:opportunity_calls_failed:ratio_rate",
		"namespace:opportunity_calls_slow:ratio_rate"} {
		for _, r := range rules(t) {
			if window, ok := strings.CutPrefix(r.Record, record); ok {
				monthly := strings.ReplaceAll(r.Expr, "["+window+"]", "[30d]")
				require.True(t, queries[canonical(t, monthly)], "the page lacks %s", monthly)
			}
		}
	}
	require.True(t, queries["avg_over_time(namespace:opportunity_listings_verified:ratio[30d])"])
}

func canonical(t *testing.T, expr string) string {
	t.Helper()
	parsed, err := watch.Parser.ParseExpr(expr)
	require.NoError(t, err)
	return parsed.String()
}

// expression returns the expression of an alert, with the expressions of recording rules in place
// of recorded series.
func expression(t *testing.T, alert, severity string) string {
	t.Helper()
	var found []string
	all := rules(t)
	for _, r := range all {
		if r.Alert == alert && r.Labels["severity"] == severity {
			expr := r.Expr
			for range 2 {
				for _, other := range all {
					if other.Record != "" {
						expr = regexp.MustCompile(regexp.QuoteMeta(other.Record)+`\b`).ReplaceAllLiteralString(expr, "("+other.Expr+")")
					}
				}
			}
			found = append(found, "("+expr+")")
		}
	}
	require.NotEmpty(t, found, "%s %s", alert, severity)
	return strings.Join(found, " or ")
}

func TestDashboards(t *testing.T) {
	dashboards, err := watch.Dashboards(dashboardsDir)
	require.NoError(t, err)
	uids := map[string]string{}
	for file, d := range dashboards {
		require.NotEmpty(t, d.Title, file)
		require.GreaterOrEqual(t, d.SchemaVersion, 39, file)
		require.Empty(t, uids[d.UID], "%s has the uid of %s", file, uids[d.UID])
		uids[d.UID] = file
		require.NotEmpty(t, d.Templating.List, file)
		require.Equal(t, "datasource", d.Templating.List[0].Type, "%s: the data source must be a variable", file)
		ids := map[int]string{}
		for _, p := range d.All() {
			require.Positive(t, p.ID, "%s: %s", file, p.Title)
			require.Empty(t, ids[p.ID], "%s: panels %q and %q have the same id", file, p.Title, ids[p.ID])
			ids[p.ID] = p.Title
			if p.Type == "row" || p.Type == "text" {
				continue
			}
			require.NotEmpty(t, p.FieldConfig.Defaults.Unit, "%s: %s has no unit", file, p.Title)
			require.Equal(t, &watch.Datasource{Type: "prometheus", UID: "${datasource}"}, p.Datasource, "%s: %s", file, p.Title)
			require.NotEmpty(t, p.Targets, "%s: %s", file, p.Title)
			refs := map[string]bool{}
			for _, target := range p.Targets {
				require.False(t, refs[target.RefID], "%s: %s has two queries %s", file, p.Title, target.RefID)
				refs[target.RefID] = true
				selectors, err := watch.Selectors(watch.Expr(target.Expr))
				require.NoError(t, err, "%s: %s", file, p.Title)
				require.NotEmpty(t, selectors)
				require.Contains(t, target.Expr, `namespace=~"$namespace"`, "%s: %s must filter by namespace", file, p.Title)
			}
		}
		overlaps(t, file, d.Panels)
	}
}

// overlaps fails the test if two panels overlap, because Grafana would move one of them.
func overlaps(t *testing.T, file string, panels []watch.Panel) {
	t.Helper()
	taken := map[[2]int]string{}
	for _, p := range panels {
		require.LessOrEqual(t, p.GridPos["x"]+p.GridPos["w"], 24, "%s: %s", file, p.Title)
		for x := range p.GridPos["w"] {
			for y := range p.GridPos["h"] {
				at := [2]int{p.GridPos["x"] + x, p.GridPos["y"] + y}
				require.Empty(t, taken[at], "%s: %s overlaps %s", file, p.Title, taken[at])
				taken[at] = p.Title
			}
		}
	}
}
