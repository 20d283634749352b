package charts_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/engine"
)

// TestNotesSayHowToIssueTheFirstKey checks the commands that helm prints after an installation.
func TestNotesSayHowToIssueTheFirstKey(t *testing.T) {
	files, err := renderFiles(t, release, least(), engine.Render)
	require.NoError(t, err)
	notes := files["opportunity/templates/NOTES.txt"]
	for _, line := range []string{
		`Operators use the command opportunity, of this version: build it with "make build".`,
		"kubectl -n data port-forward service/opportunity-gateway-admin 8081:8081 &",
		"kubectl -n data get secret opportunity-operator",
		"opportunity listings publish --all --yes\n",
		`opportunity keys issue --tier free --use-case "first try"`,
		"Without a build, use it in a pod.",
		`"enableServiceLinks":false`, // the variables of service links look like misspelt settings
		"kubectl -n data exec -i opportunity -- /opportunity listings import - < FILE",
		"kubectl -n data exec opportunity -- /opportunity listings publish --all --yes\n",
	} {
		require.Contains(t, notes, line)
	}
}
