// Package watch loads the monitoring of the service like Prometheus and Grafana: the rules and
// dashboards of the chart, and the runbooks.
package watch

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// Parser is the parser of Prometheus without experimental features.
var Parser = parser.NewParser(parser.Options{})

// Rules returns the rules of all files in a folder. It returns an error if Prometheus would reject
// a file.
func Rules(dir string) ([]rulefmt.Rule, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no rules in %s: %w", dir, err)
	}
	var rules []rulefmt.Rule
	for _, file := range files {
		groups, errs := rulefmt.ParseFile(file, false, model.LegacyValidation, Parser, slog.New(slog.DiscardHandler))
		if len(errs) > 0 {
			return nil, fmt.Errorf("%s: %v", file, errs)
		}
		for _, g := range groups.Groups {
			rules = append(rules, g.Rules...)
		}
	}
	return rules, nil
}

// Panel is a panel of a dashboard.
type Panel struct {
	ID         int            `json:"id"`
	Type       string         `json:"type"`
	Title      string         `json:"title"`
	Datasource *Datasource    `json:"datasource"`
	GridPos    map[string]int `json:"gridPos"`
	Panels     []Panel        `json:"panels"`
	Targets    []struct {
		RefID      string      `json:"refId"`
		Expr       string      `json:"expr"`
		Datasource *Datasource `json:"datasource"`
	} `json:"targets"`
	FieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
}

// Datasource is the data source of a panel.
type Datasource struct{ Type, UID string }

// Dashboard is a Grafana dashboard.
type Dashboard struct {
	UID           string  `json:"uid"`
	Title         string  `json:"title"`
	SchemaVersion int     `json:"schemaVersion"`
	Panels        []Panel `json:"panels"`
	Templating    struct {
		List []struct {
			Name, Type string
			AllValue   string
			Query      any
		}
	} `json:"templating"`
}

// Dashboards returns the dashboards in a folder, by file.
func Dashboards(dir string) (map[string]Dashboard, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no dashboards in %s: %w", dir, err)
	}
	found := map[string]Dashboard{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var d Dashboard
		if err := json.Unmarshal(text, &d); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		found[filepath.Base(file)] = d
	}
	return found, nil
}

// All returns all panels of a dashboard, including those in rows.
func (d Dashboard) All() []Panel {
	var all []Panel
	for _, p := range d.Panels {
		all = append(append(all, p), p.Panels...)
	}
	return all
}

var grafana = strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$namespace", ".*")

// Expr returns the expression of a panel with values for Grafana's variables.
func Expr(panel string) string { return grafana.Replace(panel) }

// Selectors returns the selectors of series in an expression, each with its metric as Name.
func Selectors(expr string) (all []*parser.VectorSelector, err error) {
	parsed, err := Parser.ParseExpr(expr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok {
			for _, m := range s.LabelMatchers {
				if m.Name == model.MetricNameLabel {
					s.Name = m.Value
				}
			}
			all = append(all, s)
		}
		return nil
	})
	return all, nil
}

var block = regexp.MustCompile("(?ms)^```promql\n(.*?)^```$")

// Queries returns the expressions in the promql blocks of a page. Each paragraph of a block is one
// expression.
func Queries(page string) []string {
	var found []string
	for _, m := range block.FindAllStringSubmatch(page, -1) {
		for query := range strings.SplitSeq(strings.TrimSpace(m[1]), "\n\n") {
			found = append(found, query)
		}
	}
	return found
}
