package charts_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// takesAway finds statements after which the version before can no longer read or write.
var takesAway = regexp.MustCompile(`(?i)\b(DROP\s+(TABLE|COLUMN|VIEW)|RENAME\s+(TO|COLUMN)|ALTER\s+(COLUMN\s+)?\w+\s+(SET\s+DATA\s+)?TYPE|SET\s+NOT\s+NULL)\b|ADD\s+COLUMN\s+[^;,]*\bNOT\s+NULL\b[^;,]*`)

// contract says that the version before this one needs no more what a migration takes away: "-- Contract: why".
var contract = regexp.MustCompile(`(?m)^-- Contract: \S`)

// TestTheVersionBeforeReadsTheNewSchema: migrations run while the pods of the version before serve, and stay after a rollback.
func TestTheVersionBeforeReadsTheNewSchema(t *testing.T) {
	files, err := filepath.Glob("../services/*/migrations/*/*.sql")
	require.NoError(t, err)
	require.Greater(t, len(files), 10)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		up, _, _ := strings.Cut(string(text), "-- +goose Down")
		require.True(t, contract.MatchString(up) || !breaks(up), "%s takes something away that the version before may need: "+
			"do it a release later and say in a line \"-- Contract: why nobody needs it\"", file)
	}
}

func breaks(up string) bool {
	for _, statement := range takesAway.FindAllString(up, -1) {
		if !strings.Contains(strings.ToUpper(statement), "DEFAULT") {
			return true
		}
	}
	return false
}

func TestWhatTakesAway(t *testing.T) {
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
