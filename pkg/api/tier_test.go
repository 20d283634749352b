package api_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

// TestTierTable checks the properties that code derives from the table.
func TestTierTable(t *testing.T) {
	require.Equal(t, 0, api.BaseTier.Rank(), "accounts start at the lowest tier")
	require.NotEqual(t, -1, api.ExampleTier.Rank())
	require.Equal(t, -1, api.Tier("gold").Rank())
	require.False(t, api.Tier("gold").AllRecords(), "an unknown tier has access to the free set only")
	var names []string
	for _, info := range api.Tiers {
		names = append(names, string(info.Tier))
	}
	require.ElementsMatch(t, constants(t)["Tier"], names, "each constant needs a row in api.Tiers")
	sold := 0
	for i, info := range api.Tiers {
		require.Equal(t, i, info.Tier.Rank())
		require.Equal(t, info.AllRecords, info.Tier.AllRecords())
		if info.MonthlyUSD > 0 {
			sold++
			require.Equal(t, info, api.SoldPlan())
		}
	}
	require.Equal(t, 1, sold, "billing sells exactly one plan")
	require.Equal(t, "Business", api.HistoryPlan().Name)
	_, ok := api.PlanOf(api.Developer)
	require.False(t, ok, "only operators grant the developer tier")
}

// TestTierNamesAreOnlyInTheTable checks that no program treats a tier specially by its name. Such a
// property belongs in api.Tiers.
func TestTierNamesAreOnlyInTheTable(t *testing.T) {
	var constants, quoted []string
	for _, info := range api.Tiers {
		name := string(info.Tier)
		constants = append(constants, strings.ToUpper(name[:1])+name[1:])
		quoted = append(quoted, strconv.Quote(name))
	}
	files := 0
	for _, folder := range []string{"../../services", "../../pkg", "../../cmd"} {
		require.NoError(t, filepath.WalkDir(folder, func(name string, _ fs.DirEntry, err error) error {
			if err != nil || name == "../../pkg/api/tier.go" || strings.HasSuffix(name, "_test.go") {
				return err
			}
			switch filepath.Ext(name) {
			case ".go":
				files++
				file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
				require.NoError(t, err)
				contract := nameOfContract(file)
				ast.Inspect(file, func(n ast.Node) bool {
					switch n := n.(type) {
					case *ast.BasicLit:
						require.NotContains(t, quoted, n.Value, name)
					case *ast.SelectorExpr:
						if x, ok := n.X.(*ast.Ident); ok && x.Name == contract {
							require.NotContains(t, constants, n.Sel.Name, name)
						}
					}
					return true
				})
			case ".html":
				text, err := os.ReadFile(name)
				require.NoError(t, err)
				for _, q := range quoted {
					require.NotContains(t, string(text), q, name)
				}
			}
			return nil
		}))
	}
	require.Greater(t, files, 100)
}

// nameOfContract returns the name under which the file imports this package.
func nameOfContract(file *ast.File) string {
	i := slices.IndexFunc(file.Imports, func(s *ast.ImportSpec) bool {
		return s.Path.Value == `"opportunity.internal/pkg/api"`
	})
	if i >= 0 && file.Imports[i].Name != nil {
		return file.Imports[i].Name.Name
	}
	return "api"
}
