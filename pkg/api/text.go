package api

import (
	"errors"
	"fmt"
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
