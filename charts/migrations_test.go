package charts_test

import (
	"os"
	"path/filepath"
	"regexp"
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
}

func breaks(migration string) bool {
	for _, statement := range takesAway.FindAllString(migration, -1) {
		if !strings.Contains(strings.ToUpper(statement), "DEFAULT") {
			return true
		}
	}
	return false
}

func TestBreaks(t *testing.T) {
	for statement, want := range map[string]bool{
		"ALTER TABLE a DROP COLUMN b;":                           true,
		"drop table a;":                                          true,
		"ALTER TABLE a RENAME COLUMN b TO c;":                    true,
		"ALTER TABLE a ALTER COLUMN b TYPE text;":                true,
		"ALTER TABLE a ALTER COLUMN b SET NOT NULL;":             true,
		"ALTER TABLE a ADD COLUMN b text NOT NULL;":              true,
		"ALTER TABLE a ADD COLUMN b text NOT NULL DEFAULT '';":   false,
		"ALTER TABLE a ADD COLUMN b text;":                       false,
		"CREATE TABLE a (b text NOT NULL);":                      false,
		"ALTER TABLE a ENABLE ALWAYS TRIGGER b; DROP TRIGGER c;": false,
		"ALTER TABLE a ADD COLUMN b text DEFAULT 'x' NOT NULL;":  false,
		"CREATE INDEX b ON a (c); DROP INDEX d;":                 false,
	} {
		require.Equal(t, want, breaks(statement), statement)
	}
}
