package sitekit

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"opportunity.internal/pkg/storetest"
)

// shown has the names of the templates that sites have rendered.
var shown sync.Map

var pageShown = regexp.MustCompile(`"msg":"page"[^}]*"template":"([^"]+)"`)

// noteShown notes which pages a log says were rendered.
func noteShown(log string) {
	for _, page := range pageShown.FindAllStringSubmatch(log, -1) {
		shown.Store(page[1], true)
	}
}

// Main runs the tests of a package. A run of all of them fails unless it shows every page in a
// folder of templates.
func Main(m *testing.M, folder string) {
	flag.Parse()
	code := m.Run()
	all := flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.list").Value.String() == "" &&
		os.Getenv(storetest.QuickVariable) == ""
	if missing := hidden(folder); code == 0 && all && len(missing) > 0 {
		fmt.Println("FAIL: no test shows the pages", missing)
		code = 1
	}
	os.Exit(code)
}

func hidden(folder string) (names []string) {
	files, _ := filepath.Glob(filepath.Join(folder, "*.html"))
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".html")
		if _, ok := shown.Load(name); !ok && name != "blocks" { // shared by all pages
			names = append(names, name)
		}
	}
	return names
}
