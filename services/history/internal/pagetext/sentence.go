package pagetext

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// sentences yields the offsets of the sentences of text. A line break and a bullet end a sentence
// too.
func sentences(text string) iter.Seq2[int, int] {
	return func(yield func(start, end int) bool) {
		start := 0
		for i, r := range text {
			switch {
			case i < start:
			case strings.ContainsRune("\n•·|✔✓►●▪★", r):
				if i > start && !yield(trim(text, start, i)) {
					return
				}
				start = i + utf8.RuneLen(r)
			case (r == '.' || r == '!' || r == '?') && endsSentence(text[start:i], text[i+1:]):
				if !yield(trim(text, start, i+1)) {
					return
				}
				start = i + 1
			}
		}
		if start < len(text) {
			yield(trim(text, start, len(text)))
		}
	}
}

func trim(text string, start, end int) (int, int) {
	for start < end && text[start] == ' ' {
		start++
	}
	for start < end && text[end-1] == ' ' {
		end--
	}
	return start, end
}

const abbreviations = " e.g i.e etc approx inc ltd co corp vs st dr mr mrs no max min hr hrs env ex p.ex mme m.p "

// endsSentence reports whether a full stop, exclamation or question mark between before and after
// ends a sentence.
func endsSentence(before, after string) bool {
	if after != "" && !strings.HasPrefix(after, " ") {
		return false
	}
	next, _ := utf8.DecodeRuneInString(strings.TrimPrefix(after, " "))
	word := strings.ToLower(before[strings.LastIndexByte(before, ' ')+1:])
	return !unicode.IsLower(next) && utf8.RuneCountInString(word) > 1 && !strings.Contains(abbreviations, " "+word+" ")
}
