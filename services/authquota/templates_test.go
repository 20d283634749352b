package authquota_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

var (
	seenTemplates sync.Map
	templateName  = regexp.MustCompile(`"msg":"page".*?"template":"([^"]+)"`)
)

// sawTemplates records which pages a service rendered, from its log.
func sawTemplates(log string) {
	for _, found := range templateName.FindAllStringSubmatch(log, -1) {
		seenTemplates.Store(found[1], true)
	}
}

func unseenTemplates() (missing []string) {
	features, _ := filepath.Glob("internal/*/pages/templates/*.html")
	shared, _ := filepath.Glob("internal/site/templates/*.html")
	for _, f := range append(features, shared...) {
		name := strings.TrimSuffix(filepath.Base(f), ".html")
		if _, seen := seenTemplates.Load(name); !seen {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return missing
}
