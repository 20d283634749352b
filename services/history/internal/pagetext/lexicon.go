package pagetext

import (
	_ "embed" // the words
	"fmt"
	"strings"
)

//go:embed lexicon.txt
var lexiconFile string

// phraseLength has the number of words of the longest phrase of the lexicon by its first word.
var phraseLength = func() map[string]int {
	all := map[string]int{}
	for phrase := range lexicon {
		first, _, _ := strings.Cut(phrase, " ")
		all[first] = max(all[first], strings.Count(phrase, " ")+1)
	}
	return all
}()

// lexicon has the class of each word of lexicon.txt.
var lexicon = func() map[string]byte {
	all := map[string]byte{}
	var class byte
	for line := range strings.Lines(lexiconFile) {
		switch line[0] {
		case '#', '\n':
			continue
		case ' ': // more words of the class
		default:
			class = line[0]
		}
		for word := range strings.FieldsSeq(line[1:]) {
			stem, inflected := strings.CutSuffix(word, "+")
			endings := []string{""}
			if inflected {
				endings = []string{"", "s", "e", "es"}
			}
			for _, ending := range endings {
				phrase := strings.ReplaceAll(stem, "_", " ") + ending
				if other, ok := all[phrase]; ok && other != class {
					panic(fmt.Sprintf("%q is in the classes %c and %c", phrase, other, class))
				}
				all[phrase] = class
			}
		}
	}
	return all
}()
