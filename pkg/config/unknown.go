package config

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"opportunity.internal/pkg/params"
)

// names has the names of the settings of all services. "make generate" writes it.
//
//go:embed names.txt
var names string

// others are the variables of the opportunity command, of the desk and of the SDKs.
var others = []string{
	"OPPORTUNITY_ACTOR", "OPPORTUNITY_ADMIN_URL", "OPPORTUNITY_DATA_DIR", "OPPORTUNITY_DESK_URL", "OPPORTUNITY_KEY",
	"OPPORTUNITY_LINK_CHECKS",
	"OPPORTUNITY_OPERATOR_TOKEN", "OPPORTUNITY_URL",
}

const (
	prefix     = "OPPORTUNITY_"
	testPrefix = "OPPORTUNITY_TEST_"
	mostTypos  = 8 // between an unknown name and the one that is suggested
)

// Unknown returns a warning for each variable in environ that begins with OPPORTUNITY_ and that no
// part of the product reads, with the nearest name that one reads. environ is usually os.Environ.
// No warning has a value.
func Unknown(environ []string) (warnings []string) {
	known := append(strings.Fields(names), others...)
	lower := strings.Fields(strings.ToLower(strings.Join(known, " ")))
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		upper := strings.ToUpper(name)
		if !strings.HasPrefix(upper, prefix) || slices.Contains(known, name) || strings.HasPrefix(name, testPrefix) {
			continue
		}
		warning := fmt.Sprintf("unknown setting %s is ignored", name)
		if near := params.Nearest(name, lower, mostTypos); near != "" {
			warning += fmt.Sprintf(": did you mean %s?", strings.ToUpper(near))
		}
		warnings = append(warnings, warning)
	}
	slices.Sort(warnings)
	return warnings
}
