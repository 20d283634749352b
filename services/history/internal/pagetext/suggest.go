package pagetext

import (
	"unicode/utf8"

	"opportunity.internal/pkg/api"
)

// Limits of Suggest.
const (
	maxPerFact  = 3
	maxPerPage  = 20
	minSentence = 6 // characters
)

// Suggest returns sentences of a page that may support a fact, in the order of the page. They are for people to judge.
func Suggest(sourceURL string, p Page) []api.Quote {
	text := p.Text[:min(len(p.Text), maxScan)]
	quotes := []api.Quote{}
	perFact := map[string]int{}
	seen := map[string]bool{} // fact and sentence
	for start, end := range sentences(text) {
		sentence := text[start:end]
		if n := utf8.RuneCountInString(sentence); n < minSentence || n > api.MaxQuote || sentence[len(sentence)-1] == '?' {
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
