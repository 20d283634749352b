package docs_test

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/listingfile"
)

var update = flag.Bool("update", false, "write the blocks that are made from code into the pages")

// materialFields lists the fields of a listing that reviews cover, as a sentence does.
func materialFields() string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[listingfile.Listing]()) {
		if f.Tag.Get("change") == "material" {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			names = append(names, "`"+name+"`")
		}
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// TestBlocksAreUpToDate compares the blocks of pages that are made from code. make generate writes
// them.
func TestBlocksAreUpToDate(t *testing.T) {
	example := strings.SplitAfterN(string(listingfile.Example), "\n", 2)[1] // without the header
	for _, c := range []struct{ page, start, end, want string }{
		{"operators/curation.md", "```csv\n", "```\n", strings.Join(listingfile.Columns(), ",") + "\n"},
		{"operators/verbs.md", "A line with every field:\n\n```json\n", "```\n", example},
		{"operators/verbs.md", "- Reviews cover ", ".\n", materialFields()},
	} {
		before, rest, found := strings.Cut(read(t, c.page), c.start)
		require.True(t, found, c.page)
		block, after, _ := strings.Cut(rest, c.end)
		if *update {
			require.NoError(t, os.WriteFile(c.page, []byte(before+c.start+c.want+c.end+after), 0o600))
			continue
		}
		require.Equal(t, c.want, block, "%s is out of date: run make generate", c.page)
	}
}

// sampleBlock matches a block of code in the language of an SDK.
var sampleBlock = regexp.MustCompile("(?s)```(go|js|python)\n(.*?)```\n")

// TestSamplesAreUpToDate compares the code of pages with the files below sdk/samples, which the
// end-to-end tests run. make generate writes the blocks.
func TestSamplesAreUpToDate(t *testing.T) {
	used := map[string]bool{}
	for _, p := range mustGlob(t, "consumers/*.md") {
		text := read(t, p)
		dir := filepath.Join("../sdk/samples", strings.TrimSuffix(filepath.Base(p), ".md"))
		want := sampleBlock.ReplaceAllStringFunc(text, func(block string) string {
			language := sampleBlock.FindStringSubmatch(block)[1]
			file := filepath.Join(dir, "main."+map[string]string{"go": "go", "js": "mjs", "python": "py"}[language])
			used[file] = true
			return "```" + language + "\n" + read(t, file) + "```\n"
		})
		if *update {
			require.NoError(t, os.WriteFile(p, []byte(want), 0o600))
			continue
		}
		require.Equal(t, want, text, "%s is out of date: run make generate", p)
	}
	for _, file := range mustGlob(t, "../sdk/samples/*/main.*") {
		require.True(t, used[file], "no page shows %s", file)
	}
}

func mustGlob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}
