package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/billing"
	"opportunity.internal/services/catalog"
	"opportunity.internal/services/gateway"
	"opportunity.internal/services/history"
)

var update = flag.Bool("update", false, "rewrite docs/configuration.md and the lists of settings")

const (
	settingsPage  = "../../docs/configuration.md"
	chartSettings = "../../charts/opportunity/settings.yaml"
	settingNames  = "../../pkg/config/names.txt"
)

const settingsHead = `# Settings

Each service reads its settings from environment variables and reports all invalid ones when it starts. ` + "`make generate`" + `
generates this page from the code. Traces use the standard ` + "`OTEL_*`" + ` variables. ` + "`opportunity up`" + ` sets addresses, stores and
secrets itself and reads the rest from its environment. For the variables of the other commands, see
[Operator commands](operators/verbs.md).

| Variable | Service | Default | Meaning |
|---|---|---|---|
`

const chartHead = `# The settings of the services, with which the chart checks env and Secrets. Generated from the code by "make generate".
`

// TestSettingsPage checks that docs/configuration.md, the list of the chart and the known names are
// up to date with the settings of all services.
func TestSettingsPage(t *testing.T) {
	var all []config.Setting
	services := map[string][]string{}
	for _, s := range []struct {
		name string
		cfg  any
	}{
		{"gateway", gateway.Config{}}, {"catalog", catalog.Config{}}, {"history", history.Config{}},
		{"authquota", authquota.Config{}}, {"billing", billing.Config{}},
	} {
		for _, setting := range config.Describe(s.cfg) {
			require.NotEmpty(t, setting.Doc, "%s of %s", setting.Name, s.name)
			if i := slices.IndexFunc(all, func(a config.Setting) bool { return a.Name == setting.Name }); i < 0 {
				all = append(all, setting)
			} else {
				require.Equal(t, all[i], setting, "two services describe %s differently", setting.Name)
			}
			services[setting.Name] = append(services[setting.Name], s.name)
		}
	}
	page, list, names := new(strings.Builder), new(strings.Builder), new(strings.Builder)
	page.WriteString(settingsHead)
	list.WriteString(chartHead)
	for _, s := range all {
		fmt.Fprintln(names, s.Name)
		fmt.Fprintf(list, "%s: {services: [%s], required: %t, secret: %t}\n", s.Name, strings.Join(services[s.Name], ", "),
			s.Required, strings.HasPrefix(s.Doc, "Secret."))
		where, without := strings.Join(services[s.Name], ", "), ""
		if len(services[s.Name]) == 5 {
			where = "all"
		}
		switch {
		case s.Required:
			without = "required"
		case s.Default != "":
			without = "`" + s.Default + "`"
		}
		fmt.Fprintf(page, "| `%s` | %s | %s | %s |\n", s.Name, where, without, strings.ReplaceAll(s.Doc, "|", `\|`))
	}
	for file, want := range map[string]string{settingsPage: page.String(), chartSettings: list.String(),
		settingNames: names.String()} {
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
		}
		have := storetest.Must(os.ReadFile(file))(t)
		require.Equal(t, want, string(have), "%s: run make generate", file)
	}
}
