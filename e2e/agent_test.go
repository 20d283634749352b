package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The official client for MCP answers ten questions with citations. Its dialogue is that on the
// page about agents.
func TestAgentAnswersTenQuestions(t *testing.T) {
	t.Parallel()
	d := sample(t)
	live, _, found := strings.Cut(command(t, "openapi", "node", "agent.mjs", d.url),
		"`get_opportunity` `{\"id\":\"no-such-platform\"}`")
	require.True(t, found)
	page, err := os.ReadFile("../docs/consumers/agents.md")
	require.NoError(t, err)
	recorded := string(page)[strings.Index(string(page), "\n**"):]
	require.Equal(t, normal(strings.ReplaceAll(recorded, "http://localhost:8080", d.url)), normal(live))
	require.GreaterOrEqual(t, strings.Count(live, "\n> — "), 10, "citations")
}
