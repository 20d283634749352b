package desk

import "strings"

// Forms returns the paths of all forms.
func Forms() (paths []string) {
	for _, r := range routes() {
		if path, ok := strings.CutPrefix(r.pattern, "POST "); ok {
			paths = append(paths, strings.ReplaceAll(path, "{id}", "maple"))
		}
	}
	return paths
}

// Patterns returns the patterns of all pages and forms.
func Patterns() (patterns []string) {
	for _, r := range routes() {
		patterns = append(patterns, r.pattern)
	}
	return patterns
}

// CodeLife is the lifetime of a sign-in code.
const CodeLife = codeLife
