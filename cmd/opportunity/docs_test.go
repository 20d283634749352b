package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
)

// TestCommandsInDocsExist finds every command line of opportunity in the pages for operators and
// developers, in code blocks and inline, and checks its command and flags.
func TestCommandsInDocsExist(t *testing.T) {
	var files []string
	for _, pattern := range []string{
		"*.md", "docs/*.md", "docs/decisions/*.md", "docs/operators/*.md", "docs/runbooks/*.md", "charts/*/README.md",
		"k8s/*/README.md",
	} {
		found := storetest.Must(filepath.Glob("../../" + pattern))(t)
		require.NotEmpty(t, found, pattern)
		files = append(files, found...)
	}
	root := newRoot(strings.NewReader(""), io.Discard, io.Discard)
	commandLine := regexp.MustCompile("(?m)(?:^|`)(?:bin/)?opportunity ([a-z-][^`\n]*)")
	checked := 0
	for _, file := range files {
		text := storetest.Must(os.ReadFile(file))(t)
		for _, match := range commandLine.FindAllStringSubmatch(string(text), -1) {
			checked++
			line := match[1]
			cmd, rest, err := root.Find(words(line))
			require.NoError(t, err, "%s: opportunity %s", file, line)
			require.True(t, len(rest) == 0 || !cmd.HasSubCommands(), "%s: unknown command: opportunity %s", file, line)
			for _, word := range rest {
				if name, isFlag := strings.CutPrefix(word, "--"); isFlag {
					name, _, _ = strings.Cut(name, "=")
					known := cmd.Flag(name) != nil || cmd.InheritedFlags().Lookup(name) != nil || name == "help"
					require.True(t, known, "%s: opportunity %s: unknown flag --%s", file, line, name)
				}
			}
		}
	}
	require.Greater(t, checked, 50)
}

// words splits a command at spaces, up to a comment, a pipe or a redirection. Quoted text becomes
// one word.
func words(line string) []string {
	line = regexp.MustCompile(`"[^"]*"|'[^']*'`).ReplaceAllString(line, "text")
	line, _, _ = strings.Cut(line, " #")
	return strings.Fields(line[:strings.IndexAny(line+"|", "|><)")])
}
