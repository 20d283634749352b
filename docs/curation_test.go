package docs_test

import (
	"flag"
	"os"
	"reflect"
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
