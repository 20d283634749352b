package docs_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/listingfile"
)

// TestTheColumnsOfACSVFileAreListed: the page has the header of a CSV file, to copy.
func TestTheColumnsOfACSVFileAreListed(t *testing.T) {
	page, err := os.ReadFile("operators/curation.md")
	require.NoError(t, err)
	require.Contains(t, string(page), "```csv\n"+strings.Join(listingfile.Columns(), ",")+"\n```\n")
}
