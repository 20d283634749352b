package api

import (
	"errors"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Line returns a text of one line that a person wrote, such as a name or a reason, as it is stored:
// in NFC, without space at its ends. It returns an error, such as "must have at most 60
// characters", for an empty or too long text and for characters that a reader cannot see or that
// change the order of others. U+202E makes one name look like another, and tag characters hide text
// from people but not from machines. Joiners and selectors of words and emoji are accepted where
// they have an effect.
func Line(text string, limit int) (string, error) { return stored(text, limit, "") }

// Lines is Line for a text of several lines. It accepts tabs, and changes each line end to a line
// feed.
func Lines(text string, limit int) (string, error) {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	return stored(text, limit, "\n\t")
}

func stored(text string, limit int, controls string) (string, error) {
	if !utf8.ValidString(text) {
		return "", errors.New("must be UTF-8")
	}
	rest := strings.TrimLeftFunc(text, unicode.IsSpace)
	at := utf8.RuneCountInString(text[:len(text)-len(rest)]) // characters before rest
	rest = strings.TrimRightFunc(rest, unicode.IsSpace)
	if rest == "" {
		return "", errors.New("must not be empty")
	}
	text = norm.NFC.String(rest)
	if utf8.RuneCountInString(text) > limit {
		return "", tooLong(limit)
	}
	visible, marks := false, 0
	for before := rune(0); rest != ""; {
		if c := rest[0]; c >= ' ' && c < 0x7F { // accepted everywhere; most texts have few others
			at, rest, before, marks, visible = at+1, rest[1:], rune(c), 0, visible || c != ' '
			continue
		}
		if n := flag(rest); n > 0 {
			at, rest, before, visible = at+utf8.RuneCountInString(rest[:n]), rest[n:], 0, true
			continue
		}
		r, size := utf8.DecodeRuneInString(rest)
		rest = rest[size:]
		at++
		if isHidden(r) && !strings.ContainsRune(controls, r) && !hasEffect(before, r, rest) {
			return "", fmt.Errorf("must not contain %U (%s), its character %d", r, nature(r), at)
		}
		if marks++; !unicode.In(r, unicode.Mn, unicode.Me) {
			marks = 0
		}
		if marks > maxMarks {
			return "", fmt.Errorf("must not have more than %d marks on one character, as at its character %d", maxMarks,
				at)
		}
		before, visible = r, visible || isVisible(r)
	}
	if !visible {
		return "", errors.New("must have a letter, a digit or another visible character")
	}
	return text, nil
}

// maxMarks bounds the marks in a row, which could otherwise cover the lines around them (Unicode
// Technical Standard 39, section 5.4).
const maxMarks = 4

func tooLong(limit int) error { return fmt.Errorf("must have at most %d characters", limit) }

// flag returns the length of the flag that text begins with, if Unicode writes it with tag
// characters. There are three of these.
func flag(text string) int {
	if rest, is := strings.CutPrefix(text, "\U0001F3F4"); is {
		for _, tags := range []string{
			"\U000E0067\U000E0062\U000E0065\U000E006E\U000E0067\U000E007F", // England
			"\U000E0067\U000E0062\U000E0073\U000E0063\U000E0074\U000E007F", // Scotland
			"\U000E0067\U000E0062\U000E0077\U000E006C\U000E0073\U000E007F", // Wales
		} {
			if strings.HasPrefix(rest, tags) {
				return len(text) - len(rest) + len(tags)
			}
		}
	}
	return 0
}

// isHidden reports whether a reader cannot see r where it stands alone. A space is not hidden.
func isHidden(r rune) bool {
	if r >= ' ' && r < 0x7F {
		return false
	}
	return r == utf8.RuneError || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp,
		unicode.Variation_Selector,
		unicode.Other_Default_Ignorable_Code_Point, unicode.Noncharacter_Code_Point) &&
		!unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}

func isVisible(r rune) bool {
	const blank = '\u2800' // of Braille
	return r != blank && !isHidden(r) && unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S)
}

const (
	zwnj, zwj       = '\u200C', '\u200D'
	asText, asEmoji = '\uFE0E', '\uFE0F'
)

// hasEffect reports whether r selects the form of the character before it, or joins its neighbours,
// as Persian words and family emoji need.
func hasEffect(before, r rune, rest string) bool {
	after, _ := utf8.DecodeRuneInString(rest)
	symbol := func(r rune) bool {
		return r > unicode.MaxLatin1 && r != utf8.RuneError && unicode.Is(unicode.S, r) || r == '©' || r == '®'
	}
	switch {
	case r == asText || r == asEmoji:
		return isVisible(before)
	case unicode.Is(unicode.Variation_Selector, r):
		return unicode.Is(unicode.Han, before)
	case r == zwj && (symbol(before) || before == asEmoji) && symbol(after):
		return true
	case r == zwj || r == zwnj:
		letter := unicode.In(after, unicode.L, unicode.M)
		return joins(before) && (letter || unicode.Is(unicode.M, before)) || joins(after) &&
			unicode.In(before, unicode.L, unicode.M, unicode.N)
	}
	return false
}

// joins reports whether r is a letter or a mark of a script whose letters a joiner can change,
// unlike those of Latin.
func joins(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M) && !unicode.In(r, unicode.Latin, unicode.Greek, unicode.Cyrillic,
		unicode.Armenian,
		unicode.Georgian, unicode.Hebrew, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana,
		unicode.Common, unicode.Inherited)
}

func nature(r rune) string {
	switch {
	case r == '\n' || r == '\r' || r == '\u2028' || r == '\u2029':
		return "a line break"
	case r == '\t':
		return "a tab"
	case r == utf8.RuneError:
		return "in place of a character that was lost"
	case unicode.Is(unicode.Bidi_Control, r):
		return "changes the direction of the text"
	case unicode.Is(unicode.Cc, r):
		return "a control character"
	case unicode.Is(unicode.Noncharacter_Code_Point, r):
		return "not a character"
	}
	return "invisible"
}

// Fold returns the form of a text in which case, accents, width and normal forms do not matter, for
// search and comparison. It leaves out joiners and other hidden characters.
func Fold(text string) string {
	text = strings.Map(func(r rune) rune {
		// accents; marks of other scripts are letters to their readers
		if isHidden(r) || r >= '\u0300' && r <= '\u036F' {
			return -1
		}
		return r
	}, norm.NFKD.String(text))
	return norm.NFC.String(undivided.Replace(strings.ToLower(text)))
}

// undivided are letters that are no letter with an accent in Unicode.
var undivided = strings.NewReplacer("ß", "ss", "œ", "oe", "æ", "ae", "ø", "o", "đ", "d", "ð", "d", "ł", "l",
	"þ", "th", "ı", "i", "ς", "σ")

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

// formula matches the places in a cell where a spreadsheet would begin a formula: at the start, or
// after a semicolon, which separates cells in some countries. Before the sign of a formula there
// can be characters that show nothing, which spreadsheets skip, after any number of apostrophes. A
// cell that begins with a tab or a line break counts too. sdk/conformance/csv.json has examples;
// the SDKs have the same rule.
var formula = regexp.MustCompile(`(^|;)('*` + invisible + `*[=+\-@＝＋－＠])|^('*` + invisible + `*[\t\r\n])`)

// escaped matches the same places behind the apostrophe of EscapeFormulas.
var escaped = regexp.MustCompile(`(^|;)'('*` + invisible + `*[=+\-@＝＋－＠])|^'('*` + invisible + `*[\t\r\n])`)

// invisible matches a space, a control character, or another character that shows nothing.
const invisible = `[\x00-\x20\x7f-\xa0\xad\x{34f}\x{61c}\x{115f}\x{1160}\x{1680}\x{17b4}\x{17b5}\x{180b}-\x{180f}` +
	`\x{2000}-\x{200f}\x{2028}-\x{202f}\x{205f}-\x{206f}\x{3000}\x{3164}\x{fe00}-\x{fe0f}\x{feff}\x{ffa0}` +
	`\x{fff0}-\x{fffb}\x{1d173}-\x{1d17a}\x{e0000}-\x{e0fff}]`

// EscapeFormulas puts an apostrophe in front of what a spreadsheet would run as a formula in a cell
// of a CSV file, so that it is text.
func EscapeFormulas(cell string) string { return formula.ReplaceAllString(cell, "$1'$2$3") }

// UnescapeFormulas reverses EscapeFormulas.
func UnescapeFormulas(cell string) string { return escaped.ReplaceAllString(cell, "$1$2$3") }
