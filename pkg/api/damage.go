package api

import (
	"fmt"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// damage is something in a text that a curator did not mean.
type damage struct {
	pattern *regexp.Regexp
	starts  []string // each match begins with one of these characters
}

var (
	// markup matches tags of HTML, as opposed to other text in angle brackets, and what may be a
	// character reference.
	markup = damage{regexp.MustCompile(`(?i)</?(?:a|abbr|article|aside|b|blockquote|body|br|button|center|code|dd|div|dl|` +
		`dt|em|font|footer|form|h[1-6]|head|header|hr|html|i|iframe|img|input|label|li|link|main|meta|nav|ol|p|pre|s|` +
		`script|section|small|span|strong|style|sub|sup|svg|table|tbody|td|th|thead|title|tr|u|ul|video)` +
		`(?:\s[^<>]*=[^<>]*)?\s*/?>|<!--|<!doctype|&(?:#\d+|#x[0-9a-f]+|[a-z][a-z0-9]+);`), strings.Split("<&", "")}

	// mojibake matches UTF-8 that was read as Windows-1252 or Mac Roman: an accented Latin letter
	// or a sign, two Cyrillic letters, an emoji. It leaves what French and Portuguese words in
	// capitals have before a quotation mark or a space.
	mojibake = damage{regexp.MustCompile(`[ÂÃ][¡-º¼-¿‚ƒ„†‡ˆ‰Š‹ŒŽ™š›œžŸ€]|Ã\x{a0}[a-z ]|â€|â‚¬|ï»¿|ï¿½|ðŸ|` +
		`(?:[ÐÑ][\x{a0}-\x{bf}‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ€]){2}|` +
		`√[©®†§¥]|‚Ä[ôòúùìî¶]`), strings.Split("ÂÃâïðÐÑ√‚", "")}
)

// in returns the matches in a text. It runs the pattern only if one can begin: few texts have these
// characters, and the patterns would otherwise take half the time of an import.
func (d damage) in(text string) []string {
	if slices.ContainsFunc(d.starts, func(s string) bool { return strings.Contains(text, s) }) {
		return d.pattern.FindAllString(text, -1)
	}
	return nil
}

// undamaged records a problem if value has HTML, or characters that were read in a wrong encoding.
func (p *Problems) undamaged(field, value string) {
	for _, found := range markup.in(value) {
		if found[0] == '<' || html.UnescapeString(found) != found {
			p.Add(field, "must be plain text: write the characters themselves instead of the HTML %q", short(found))
			break
		}
	}
	if found := mojibake.in(value); len(found) > 0 {
		p.Add(field, "has %q, which stands for characters that were read in another encoding: "+
			"save the file as UTF-8, or copy the words again", found[0])
	}
}

// Unique records a problem for each value that repeats an earlier one. Case does not matter, nor do
// parts of a URL that do not change the page: the case of its host, a default port, and an empty
// path.
func (p *Problems) Unique(field string, values []string) {
	seen := map[string]int{}
	for i, v := range values {
		key := sameAs(v)
		if first, again := seen[key]; again {
			p.Add(fmt.Sprintf("%s[%d]", field, i), "%q repeats %s[%d]; remove one of them", short(v), field, first)
			continue
		}
		seen[key] = i
	}
}

func sameAs(value string) string {
	u, err := url.Parse(value)
	if err != nil || u.Host == "" {
		return strings.ToLower(strings.TrimSpace(value))
	}
	u.Host = strings.TrimSuffix(strings.ToLower(u.Host), map[string]string{"http": ":80", "https": ":443"}[u.Scheme])
	if u.Path == "" {
		u.Path = "/"
	}
	return u.String()
}
