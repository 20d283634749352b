package pagetext

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"opportunity.internal/pkg/api"
)

// Limits of Suggest.
const (
	maxPerFact  = 3
	maxPerPage  = 20
	minSentence = 6 // characters
)

// Suggest returns sentences of a page that may support a fact, in the order of the page. They are
// for people to judge.
func Suggest(sourceURL string, p Page) []api.Quote {
	text := p.Text[:min(len(p.Text), maxScan)]
	quotes := []api.Quote{}
	perFact := map[string]int{}
	seen := map[string]bool{} // fact and sentence
	for start, end := range sentences(text) {
		sentence := text[start:end]
		if n := utf8.RuneCountInString(sentence); n < minSentence || n > api.MaxQuote ||
			sentence[len(sentence)-1] == '?' {
			continue
		}
		folded := fold(sentence)
		for _, h := range hints {
			if perFact[h.fact] == maxPerFact || !h.supports(folded) || seen[h.fact+folded] {
				continue
			}
			perFact[h.fact]++
			seen[h.fact+folded] = true
			quotes = append(quotes, quote(h.fact, sourceURL, text, start, end))
			if len(quotes) == maxPerPage {
				return quotes
			}
		}
	}
	return quotes
}

// minShared is the share of the words of a missing quote that a sentence needs to be near it.
const minShared = 0.5

// Nearest returns the sentence of a page that has most in common with a quote that the page lacks,
// as a quote of the same fact. It returns false if no sentence has half of the quote's words.
func Nearest(text string, q api.Quote) (nearest api.Quote, found bool) {
	text = text[:min(len(text), maxScan)]
	wanted, best := wordsOf(q.Exact), 0.0
	for start, end := range sentences(text) {
		n := utf8.RuneCountInString(text[start:end])
		if n < minSentence || n > api.MaxQuote {
			continue
		}
		has, shared := wordsOf(text[start:end]), 0
		for word := range wanted {
			if has[word] {
				shared++
			}
		}
		likeness := 2 * float64(shared) / float64(len(wanted)+len(has)) // Dice's coefficient
		if float64(shared) >= minShared*float64(len(wanted)) && likeness > best {
			nearest, best, found = quote(q.Fact, q.SourceURL, text, start, end), likeness, true
		}
	}
	return nearest, found
}

func wordsOf(text string) map[string]bool {
	words := map[string]bool{}
	for word := range strings.FieldsFuncSeq(fold(Normalize(text)),
		func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) }) {
		words[word] = true
	}
	return words
}

// quote returns text[start:end] with the text around it.
func quote(fact, sourceURL, text string, start, end int) api.Quote {
	prefix := text[max(0, start-4*api.MaxQuoteContext):start]
	for utf8.RuneCountInString(prefix) > api.MaxQuoteContext || prefix != "" && !utf8.RuneStart(prefix[0]) {
		prefix = prefix[1:]
	}
	return api.Quote{
		Fact: fact, SourceURL: sourceURL, Exact: text[start:end],
		Prefix: Normalize(prefix), Suffix: Normalize(cut(text[end:], api.MaxQuoteContext)),
	}
}
