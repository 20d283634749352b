package pagetext

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Normalize returns text in a form that does not depend on the typography of its page: white space
// is a single space, quotation marks and dashes are ASCII, invisible characters are left out, and
// the rest is in NFC. Look-alike letters of other alphabets stay different, and so do upper and
// lower case.
func Normalize(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	space := false
	for _, r := range text {
		switch {
		case unicode.IsSpace(r):
			space = b.Len() > 0
			continue
		case ignored(r):
			continue
		case space:
			b.WriteByte(' ')
			space = false
		}
		switch plain, ok := typography[r]; {
		case r < 0x60 && r >= ' ':
			b.WriteByte(byte(r))
		case ok:
			b.WriteString(plain)
		case unicode.Is(unicode.Cc, r):
			b.WriteRune(unicode.ReplacementChar)
		default:
			b.WriteRune(r)
		}
	}
	return norm.NFC.String(b.String())
}

// typography maps characters to plain ones. U+1FEF and U+1FFD are equivalent to the grave and acute
// accents in NFC. Controls that make text look different from what it says become the replacement
// character, which no quote has.
var typography = func() map[rune]string {
	all := map[rune]string{'…': "...", '\u202D': "\uFFFD", '\u202E': "\uFFFD"}
	for plain, fancy := range map[string]string{
		"'": "‘’‚‛‹›′`´ʼ\u1FEF\u1FFD",
		`"`: "“”„‟«»″",
		"-": "‐‑‒–—―−",
	} {
		for _, r := range fancy {
			all[r] = plain
		}
	}
	return all
}()

// ignored reports whether a character is invisible, such as a soft hyphen or a zero-width space.
func ignored(r rune) bool {
	return r >= 0xAD && unicode.Is(unicode.Cf, r) && typography[r] == "" &&
		!unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}

// fold returns text for patterns: in lower case and without accents.
func fold(text string) string {
	text = strings.ToLower(text)
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return strings.Map(func(r rune) rune {
				if unicode.Is(unicode.Mn, r) {
					return -1
				}
				return r
			}, norm.NFD.String(text))
		}
	}
	return text
}
