package desk

import "strings"

// Forms returns the paths of all forms, and which of them need no session.
func Forms() (paths map[string]bool) {
	paths = map[string]bool{}
	for _, r := range routes() {
		if path, ok := strings.CutPrefix(r.pattern, "POST "); ok {
			paths[strings.NewReplacer("{id}", "maple").Replace(path)] = r.open
		}
	}
	return paths
}
