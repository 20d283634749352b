package pagetext

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"opportunity.internal/pkg/api"
)

// maxOccurrences bounds the time of Find on text that repeats a short quote.
const maxOccurrences = 1000

// Find looks for a quote in the text of a page. A quote is present where its prefix and suffix
// surround it, and moved if its text is elsewhere on the page. A longer word or number that
// contains the text, such as $200 for $20, is not the text. It also returns a moved quote in its
// new surroundings, where the page has most of the old ones.
func Find(text string, q api.Quote) (api.Finding, *api.Quote) {
	exact, prefix, suffix := Normalize(q.Exact), Normalize(q.Prefix), Normalize(q.Suffix)
	if exact == "" {
		return api.QuoteMissing, nil
	}
	text = strings.ReplaceAll(text, "\n", " ")
	moved, half := -1, false // the occurrence, and whether it is beside the old prefix or suffix
	at := 0
	for range maxOccurrences {
		next := strings.Index(text[at:], exact)
		if next < 0 {
			break
		}
		at += next
		before, after := text[:at], text[at+len(exact):]
		left := strings.HasSuffix(strings.TrimSuffix(before, " "), prefix)
		right := strings.HasPrefix(strings.TrimPrefix(after, " "), suffix)
		if (left && prefix != "" || !joined(before, exact)) && (right && suffix != "" || !joined(exact, after)) {
			if left && right {
				return api.QuotePresent, nil
			}
			if beside := left && prefix != "" || right && suffix != ""; moved < 0 || beside && !half {
				moved, half = at, beside
			}
		}
		_, size := utf8.DecodeRuneInString(exact)
		at += size
	}
	if moved < 0 {
		return api.QuoteMissing, nil
	}
	now := quote(q.Fact, q.SourceURL, text, moved, moved+len(exact))
	now.Exact = q.Exact
	return api.QuoteMoved, &now
}

// number matches where the end of one text, a bar, and the start of another are in the middle of an
// amount.
var number = regexp.MustCompile(`\d(\|[.,]|[.,]\|)\d|\d(\| | \|)\d{3}\b|[A-Za-z]\|\p{Sc}`)

// joined reports whether a word or an amount continues from a to b.
func joined(a, b string) bool {
	l, _ := utf8.DecodeLastRuneInString(a)
	r, _ := utf8.DecodeRuneInString(b)
	return inWord(l) && inWord(r) || unicode.Is(unicode.M, r) || number.MatchString(a[max(0, len(a)-4):]+"|"+cut(b, 5))
}

func inWord(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.M, r)) &&
		!unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai)
}
