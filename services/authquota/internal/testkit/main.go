package testkit

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"opportunity.internal/pkg/storetest"
)

// shown has the names of the templates that sites have rendered.
var shown sync.Map

// recorder is a log handler that records in shown which templates were rendered.
type recorder struct{ slog.Handler }

func (recorder) Enabled(context.Context, slog.Level) bool { return true }

func (r recorder) Handle(ctx context.Context, record slog.Record) error {
	if record.Message != "page" {
		return r.Handler.Handle(ctx, record)
	}
	record.Attrs(func(a slog.Attr) bool {
		shown.Store(a.Value.String(), true)
		return true
	})
	return nil
}

// NewLogger returns the log of a site, for Main to know which pages it shows.
func NewLogger(w io.Writer) *slog.Logger { return slog.New(recorder{slog.NewTextHandler(w, nil)}) }

// Main runs the tests of a package. A run of all of them fails unless it shows every page in a folder of templates.
func Main(m *testing.M, folder string) {
	flag.Parse()
	code := m.Run()
	all := flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.list").Value.String() == "" && os.Getenv(storetest.QuickVariable) == ""
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
