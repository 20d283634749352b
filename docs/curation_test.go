package docs_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/listingfile"
)

var update = flag.Bool("update", false, "write the blocks that are made from code into the pages")

// TestBlocksAreUpToDate compares the blocks of pages that are made from code. make generate writes them.
func TestBlocksAreUpToDate(t *testing.T) {
	example := strings.SplitAfterN(string(listingfile.Example), "\n", 2)[1] // without the header
	for _, c := range []struct{ page, start, want string }{
		{"operators/curation.md", "```csv\n", strings.Join(listingfile.Columns(), ",") + "\n"},
		{"operators/verbs.md", "A line with every field:\n\n```json\n", example},
	} {
		text, err := os.ReadFile(c.page)
		require.NoError(t, err)
		before, rest, found := strings.Cut(string(text), c.start)
		require.True(t, found, c.page)
		block, after, _ := strings.Cut(rest, "```\n")
		if *update {
			require.NoError(t, os.WriteFile(c.page, []byte(before+c.start+c.want+"```\n"+after), 0o600))
			continue
		}
		require.Equal(t, c.want, block, "%s is out of date: run make generate", c.page)
	}
}
