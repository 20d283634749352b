package verbs_test

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/verbs"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/history"
)

func TestVerifyFindsChangesInDataDirectory(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "history.db")
	_, _, err := verb(t, nowhere, "", "history", "verify", "--data-dir", dir)
	require.EqualError(t, err, "no history: "+file+` does not exist. Use --data-dir with the directory of "opportunity up"`)
	require.NoFileExists(t, file)
	url := "sqlite://" + file
	key := hex.EncodeToString([]byte(strings.Repeat("k", 32)))
	require.NoError(t, os.WriteFile(filepath.Join(dir, verbs.SigningKeyFile), []byte(key+"\n"), 0o600))
	cfg, err := history.ProofConfig(func(name string) (string, bool) {
		v, ok := map[string]string{"OPPORTUNITY_DATABASE_URL": url, "OPPORTUNITY_HISTORY_SIGNING_KEY": key}[name]
		return v, ok
	})
	require.NoError(t, err)
	require.NoError(t, history.Migrate(t.Context(), cfg))

	out, errs, err := verb(t, nowhere, "", "history", "verify", "--data-dir", dir)
	require.NoError(t, err)
	require.Contains(t, out, "0 events of 0 listings")
	require.Empty(t, errs)

	_, err = storetest.Plain(t, url).ExecContext(t.Context(), "UPDATE change_sequence SET value = 3")
	require.NoError(t, err)
	out, _, err = verb(t, nowhere, "", "history", "verify", "--data-dir", dir, "--output", "json")
	require.Equal(t, "history_altered", adminapi.Code(err))
	require.Contains(t, out, `"fits":false`)
	require.NotContains(t, out, "Verifying")
}
