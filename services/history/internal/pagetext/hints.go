package pagetext

import (
	_ "embed" // the patterns
	"regexp"
	"slices"
	"strings"
)

//go:embed hints.txt
var hintsFile string

// hint selects sentences that may support a fact, see hints.txt.
type hint struct {
	fact        string
	stems       []string
	any, unless *regexp.Regexp
}

func (h hint) supports(folded string) bool {
	contains := func(stem string) bool { return strings.Contains(folded, stem) }
	return slices.ContainsFunc(h.stems, contains) && h.any.MatchString(folded) && !h.unless.MatchString(folded)
}

var hints = parseHints(hintsFile)

func parseHints(file string) (all []hint) {
	var classes []string // names and values
	patterns := map[string][]string{}
	compile := func(kind string) *regexp.Regexp {
		return regexp.MustCompile(strings.NewReplacer(classes...).Replace(strings.Join(patterns[kind], "|")))
	}
	for line := range strings.Lines(file + "fact\n") { // the start of a fact ends the one before
		kind, text, _ := strings.Cut(strings.TrimRight(line, "\n"), " ")
		switch kind {
		case "class":
			name, value, _ := strings.Cut(text, " ")
			classes = append(classes, name, "("+value+")")
		case "fact":
			if len(all) > 0 {
				all[len(all)-1].any, all[len(all)-1].unless = compile("any"), compile("unless")
			}
			clear(patterns)
			all = append(all, hint{fact: text})
		case "stems":
			all[len(all)-1].stems = strings.Fields(text)
		case "any", "unless":
			patterns[kind] = append(patterns[kind], text)
		}
	}
	return all[:len(all)-1]
}
