package verbs_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/pkg/storetest"
)

// csvFile is the example as a CSV file, changed by the replacements.
func csvFile(t *testing.T, replacements ...string) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, listingfile.ToCSV(bytes.NewReader(listingfile.Example), &out))
	file := filepath.Join(t.TempDir(), "Listings.CSV")
	require.NoError(t, os.WriteFile(file, []byte(strings.NewReplacer(replacements...).Replace(out.String())), 0o600))
	return file
}

func TestCSVIsSentAsJSONLines(t *testing.T) {
	c, sent := admin(t, http.StatusOK, `{"applied":true,"created":1,"refused":[]}`)
	out, _, err := verb(t, c.URL, "", "listings", "import", csvFile(t))
	require.NoError(t, err)
	require.Equal(t, "created 1, updated 0, unchanged 0\n", out)
	require.Contains(t, sent.String(),
		`{"format":"opportunity-listings","version":1}`+"\n"+`{"applicationUrl":"https://maple-transcripts.example/apply"`)

	c, sent = admin(t, http.StatusOK, `{"dryRun":true,"created":1,"refused":[]}`)
	text := storetest.Must(os.ReadFile(csvFile(t)))(t)
	_, _, err = verb(t, c.URL, string(text), "listings", "import", "--dry-run", "--format", "csv", "-")
	require.NoError(t, err)
	require.Contains(t, sent.String(), `?dryRun=true ann {"format":"opportunity-listings","version":1}`)
}

func TestInvalidCSVIsNotSent(t *testing.T) {
	file := csvFile(t, "0.75", "much", "online,transcription", "farm,transcription")
	c, sent := admin(t, http.StatusOK, `{}`)
	for _, act := range []string{"import", "lint"} {
		_, errs, err := verb(t, c.URL, "", "listings", act, file)
		require.Error(t, err)
		require.Contains(t, errs, `line 2 (id maple-transcripts): facts.pay.minimum: "much" is not a number: `)
	}
	require.Empty(t, sent.String())
}

func TestExportAsCSV(t *testing.T) {
	c, _ := admin(t, http.StatusOK, string(listingfile.Example))
	out, _, err := verb(t, c.URL, "", "listings", "export", "--format", "csv")
	require.NoError(t, err)
	want := storetest.Must(os.ReadFile(csvFile(t)))(t)
	require.Equal(t, string(want), out)
	c, _ = admin(t, http.StatusServiceUnavailable,
		`{"error":{"code":"service_unavailable","message":"Unavailable."},"documentation":"http://x/"}`)
	_, _, err = verb(t, c.URL, "", "listings", "export", "--format", "csv")
	require.ErrorContains(t, err, "Unavailable.")
}
