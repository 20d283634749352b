package query

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// letters are the letters whose decomposition is not what people type for them.
var letters = strings.NewReplacer("ß", "ss", "œ", "oe", "æ", "ae", "ø", "o", "đ", "d", "ð", "d", "ł", "l",
	"þ", "th", "ħ", "h", "ı", "i", "ς", "σ")

// Words returns the words of text, each in the form in which the search compares words, separated
// by a space. A word is a sequence of letters and digits. The form has no case, no marks such as
// accents, and no compatibility forms such as ligatures. The SDKs do the same; change them
// together.
func Words(text string) string {
	b := make([]byte, 0, len(text))
	for _, r := range letters.Replace(strings.ToLower(decomposed(text))) {
		switch {
		case unicode.IsMark(r), unicode.Is(unicode.Cf, r): // Cf has the soft hyphen
		case unicode.IsLetter(r), unicode.IsNumber(r):
			b = utf8.AppendRune(b, r)
		case len(b) > 0 && b[len(b)-1] != ' ':
			b = append(b, ' ')
		}
	}
	return strings.TrimSuffix(string(b), " ")
}

func decomposed(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) < 0 {
		return text // saves most of the time
	}
	return norm.NFKD.String(text)
}

// Begin reports whether each of the words begins one of the words in text.
func Begin(words, text string) bool {
	for w := range strings.FieldsSeq(words) {
		if !strings.Contains(" "+text, " "+w) {
			return false
		}
	}
	return true
}
