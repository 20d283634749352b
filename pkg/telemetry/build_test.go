package telemetry

import (
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestVersionIsStamped runs the script by which the build and the images pass on the commit:
// each of its flags names a variable here.
func TestVersionIsStamped(t *testing.T) {
	text, err := exec.CommandContext(t.Context(), "../../scripts/stamp").Output()
	require.NoError(t, err)
	variable := regexp.MustCompile(`-X opportunity.internal/pkg/telemetry\.(\w+)=(\S+)`)
	stamped := variable.FindAllStringSubmatch(string(text), -1)
	require.Len(t, stamped, 3)
	for _, s := range stamped {
		variable := map[string]*string{"version": &version, "commit": &commit, "date": &date}[s[1]]
		require.NotNil(t, variable, s[1])
		*variable = s[2]
		t.Cleanup(func() { *variable = "" })
	}
	b := ReadBuild()
	require.Equal(t, Build{version, commit, date, runtime.Version()}, b)
	require.Regexp(t, `^[0-9a-f]{40}$`, b.Commit)
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`, b.Date)
	require.Contains(t, b.String("history"), "history "+version+"\ncommit   "+commit)

	for _, file := range []string{"../../scripts/build", "../../scripts/images"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, string(text), "scripts/stamp", file)
	}
}
