package charts_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// takesAway matches statements that break reads or writes of the previous version.
var takesAway = regexp.MustCompile(`(?i)\b(DROP\s+(TABLE|COLUMN|VIEW)|RENAME\s+(TO|COLUMN)|ALTER\s+(COLUMN\s+)?\w+\s+(SET\s+DATA\s+)?TYPE|SET\s+NOT\s+NULL)\b|ADD\s+COLUMN\s+[^;,]*\bNOT\s+NULL\b[^;,]*`)

// contract matches the statement that the previous version no longer needs what a migration
// removes: "-- Contract: reason".
var contract = regexp.MustCompile(`(?m)^-- Contract: \S`)

// TestPreviousVersionWorksWithNewSchema exists because migrations run while pods of the previous
// version serve, and a rollback keeps them.
func TestPreviousVersionWorksWithNewSchema(t *testing.T) {
	files, err := filepath.Glob("../services/*/internal/*/migrations/*/*.sql")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 8, "four services, two dialects")
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.True(t, contract.Match(text) || !breaks(string(text)),
			"%s removes something that the previous version may need: "+
				"do it a release later and say in a line \"-- Contract: why it is no longer needed\"", file)
	}
	for _, statement := range []string{
		"ALTER TABLE a DROP COLUMN b;", "drop table a;", "ALTER TABLE a RENAME COLUMN b TO c;",
		"ALTER TABLE a ALTER COLUMN b TYPE text;", "ALTER TABLE a ALTER COLUMN b SET NOT NULL;",
		"ALTER TABLE a ADD COLUMN b text NOT NULL;",
	} {
		require.True(t, breaks(statement), statement)
	}
	require.False(t, breaks("ALTER TABLE a ADD COLUMN b text NOT NULL DEFAULT '', ADD COLUMN c text; DROP TRIGGER d;"))
}

func breaks(migration string) bool {
	return slices.ContainsFunc(takesAway.FindAllString(migration, -1), func(statement string) bool {
		return !strings.Contains(strings.ToUpper(statement), "DEFAULT")
	})
}
