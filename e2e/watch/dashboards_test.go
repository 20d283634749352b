package watch_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/e2e/watch"
)

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
