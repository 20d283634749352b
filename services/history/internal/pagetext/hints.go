package pagetext

import "regexp"

// hints are the patterns of Suggest, English first, then French. NAME stands for a class.
var hints = []hint{
	{"pay", all(`\b(earn|pay|paye)`, `\d ?(\$|€|£)|(\$|€|£) ?\d`), hintPattern(`\?$`)},
}

func all(patterns ...string) (compiled []*regexp.Regexp) {
	for _, p := range patterns {
		compiled = append(compiled, hintPattern(p))
	}
	return compiled
}

func hintPattern(alternatives ...string) *regexp.Regexp { return pattern(hintClasses, alternatives...) }

var hintClasses = map[string]string{}
