package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
