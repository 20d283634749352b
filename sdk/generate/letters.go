package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// spelled are the letters whose decomposition is not what people type for them.
const spelled = "ß ss œ oe æ ae ø o đ d ð d ł l þ th ħ h ı i ς σ"

// emitLetters returns the letters for the comparison of texts in Go, which has no decomposition in
// its standard library: on each line what letters become, and these letters. It leaves out Hangul
// syllables, and letters that only become lower case.
func emitLetters() string {
	spell := strings.NewReplacer(strings.Fields(spelled)...)
	lines := map[string][]rune{}
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		if r >= 0xAC00 && r <= 0xD7A3 || !unicode.IsPrint(r) || unicode.IsMark(r) {
			continue
		}
		var b strings.Builder
		for _, d := range spell.Replace(strings.ToLower(norm.NFKD.String(string(r)))) {
			switch {
			case unicode.IsLetter(d), unicode.IsNumber(d):
				b.WriteRune(d)
			case !unicode.IsMark(d):
				b.WriteByte(' ')
			}
		}
		if text := b.String(); strings.TrimSpace(text) != "" && text != string(unicode.ToLower(r)) {
			lines[text] = append(lines[text], r)
		}
	}
	var out strings.Builder
	texts := make([]string, 0, len(lines))
	for text := range lines {
		texts = append(texts, text)
	}
	slices.Sort(texts)
	for _, text := range texts {
		fmt.Fprintf(&out, "%s\t%s\n", text, string(lines[text]))
	}
	return out.String()
}
