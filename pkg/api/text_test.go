package api_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
)

func TestLineAcceptsTextsOfPeople(t *testing.T) {
	for text, want := range map[string]string{
		"Maple Scribe":       "Maple Scribe",
		"  Maple Scribe\t\n": "Maple Scribe",
		"\u00A0Kelp\u3000":   "Kelp",
		"Cafe\u0301":         "Café",
		"日本の会社":              "日本の会社",
		"葛\U000E0100飾区":      "葛\U000E0100飾区", // ideographic variation
		"می\u200Cخواهم":      "می\u200Cخواهم",
		"PDF\u200Cها":        "PDF\u200Cها",
		"क्\u200Dष":          "क्\u200Dष",
		"क्\u200D":           "क्\u200D",
		"Team 👩\u200D💻":      "Team 👩\u200D💻",
		"👩🏽\u200D❤️\u200D💋\u200D👨🏿":                                     "👩🏽\u200D❤️\u200D💋\u200D👨🏿",
		"🏳️\u200D🌈 1️⃣ ☎︎ ©️":                                           "🏳️\u200D🌈 1️⃣ ☎︎ ©️",
		"🏴\U000E0067\U000E0062\U000E0065\U000E006E\U000E0067\U000E007F": "🏴\U000E0067\U000E0062\U000E0065\U000E006E\U000E0067\U000E007F",
		"Việ\u0323\u0302t":                                              "Việ\u0323\u0302t",
		"בְּרֵאשִׁ֖ית":                                                  "בְּרֵאשִׁ֖ית",
		"རྒྱུད་":                                                        "རྒྱུད་",
		"عمل\u06DD":                                                     "عمل\u06DD",
		"—":                                                             "—",
	} {
		got, err := api.Line(text, 40)
		require.NoError(t, err, "%+q", text)
		require.Equal(t, want, got)
	}
}

func TestLineNamesTheHiddenCharacterAndItsPlace(t *testing.T) {
	for text, want := range map[string]string{
		"":                "must not be empty",
		" \u2028\n":       "must not be empty",
		"\u2800 \u2800":   "must have a letter, a digit or another visible character",
		"\u0301":          "must have a letter, a digit or another visible character",
		"\u200B\u200B":    "must not contain U+200B (invisible), its character 1",
		"  ab\u200Bc":     "must not contain U+200B (invisible), its character 5",
		"pay\u202Epal":    "must not contain U+202E (changes the direction of the text), its character 4",
		"a\u2066b\u2069":  "must not contain U+2066 (changes the direction of the text), its character 2",
		"a\u200Fb":        "must not contain U+200F (changes the direction of the text), its character 2",
		"\u061Ca":         "must not contain U+061C (changes the direction of the text), its character 1",
		"a\nb":            "must not contain U+000A (a line break), its character 2",
		"a\tb":            "must not contain U+0009 (a tab), its character 2",
		"a\u2029b":        "must not contain U+2029 (a line break), its character 2",
		"a\x00b":          "must not contain U+0000 (a control character), its character 2",
		"a\u0090b":        "must not contain U+0090 (a control character), its character 2",
		"\u001B[31m":      "must not contain U+001B (a control character), its character 1",
		"\uFEFFKelp":      "must not contain U+FEFF (invisible), its character 1",
		"co\u00ADop":      "must not contain U+00AD (invisible), its character 3",
		"Go\u200Dogle":    "must not contain U+200D (invisible), its character 3",
		"Go\u200Cogle":    "must not contain U+200C (invisible), its character 3",
		"می\u200C\u200Cخ": "must not contain U+200C (invisible), its character 3",
		"\u200Dمی":        "must not contain U+200D (invisible), its character 1",
		"👩\u200D":         "must not contain U+200D (invisible), its character 2",
		"a\uFE01":         "must not contain U+FE01 (invisible), its character 2",
		"☎\uFE0F\uFE0F":   "must not contain U+FE0F (invisible), its character 3",
		"\u3164":          "must not contain U+3164 (invisible), its character 1",
		"a\u034Fb":        "must not contain U+034F (invisible), its character 2",
		"a\uFFFEb":        "must not contain U+FFFE (not a character), its character 2",
		"a\U0010FFFF":     "must not contain U+10FFFF (not a character), its character 2",
		"a\uFFFDb": "must not contain U+FFFD (in place of a character that was lost), its " +
			"character 2",
		"Kelp\U000E0041":                   "must not contain U+E0041 (invisible), its character 5",
		"🏴\U000E0075\U000E0073\U000E007F":  "must not contain U+E0075 (invisible), its character 2", // no such flag
		"Z\u0301\u0302\u0303\u0304\u0305a": "must not have more than 4 marks on one character, as at its character 6",
		"\xff":                             "must be UTF-8",
		strings.Repeat("é", 41):            "must have at most 40 characters",
		strings.Repeat("a\n", 21):          "must have at most 40 characters",
	} {
		_, err := api.Line(text, 40)
		require.EqualError(t, err, want, "%+q", text)
	}
}

func TestLinesKeepsLineBreaksAndTabs(t *testing.T) {
	got, err := api.Lines("\r\none\r\n\ttwo\rthree\n", 100)
	require.NoError(t, err)
	require.Equal(t, "one\n\ttwo\nthree", got)
	_, err = api.Lines("one\u2028two", 100)
	require.EqualError(t, err, "must not contain U+2028 (a line break), its character 4")
}

// Whatever is accepted can be stored, shown and accepted again.
func TestAcceptedTextsAreClean(t *testing.T) {
	hidden := rapid.SampledFrom([]rune("\u200B\u200C\u200D\u200E\u202E\u2066\u2069\uFE0F\uFE01\U000E0100\U000E0065\U000E007F\u3164\uFEFF\n\t 🏴👩💻aäक्یر葛"))
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.OneOf(hidden, rapid.Rune())).Draw(t, "text"))
		for _, check := range []func(string, int) (string, error){api.Line, api.Lines} {
			got, err := check(text, 1000)
			if err != nil {
				continue
			}
			require.True(t, utf8.ValidString(got) && norm.NFC.IsNormalString(got))
			require.Equal(t, strings.TrimSpace(got), got)
			require.False(t, strings.ContainsFunc(got, func(r rune) bool {
				return unicode.Is(unicode.Bidi_Control, r) || unicode.IsControl(r) && r != '\n' && r != '\t'
			}), "%+q", got)
			again, err := check(got, 1000)
			require.NoError(t, err, "%+q", got)
			require.Equal(t, got, again)
		}
	})
}

func TestFold(t *testing.T) {
	for text, want := range map[string]string{
		"Café": "cafe", "CAFE\u0301": "cafe", "ＫＥＬＰ": "kelp", "Straße": "strasse", "STRASSE": "strasse",
		"Œuvre": "oeuvre", "Øresund": "oresund",
		"Łódź": "lodz", "İstanbul": "istanbul", "ΟΔΟΣ": "οδοσ", "οδός": "οδοσ", "ﬁn™": "fintm",
		"می\u200Cخواهم": "میخواهم", "が": "が", "か\u3099": "が", "हिन्दी": "हिन्दी",
	} {
		require.Equal(t, want, api.Fold(text), text)
		require.Equal(t, want, api.Fold(api.Fold(text)), text)
	}
}

// The SDKs have the same rule and read the same examples.
func TestEscapeFormulas(t *testing.T) {
	text, err := os.ReadFile("../../sdk/conformance/fixtures/formulas.json")
	require.NoError(t, err)
	var cases []struct{ Text, Cell string }
	require.NoError(t, json.Unmarshal(text, &cases))
	cases = append(cases, []struct{ Text, Cell string }{ // the SDKs replace line breaks and tabs by spaces first
		{"\t1", "'\t1"}, {"\n1", "'\n1"}, {"\r1", "'\r1"}, {" \t1", "' \t1"}, {"\n=1", "'\n=1"}, {"a\n=1", "a\n=1"},
		{"'\n1", "''\n1"},
	}...)
	for _, c := range cases {
		require.Equal(t, c.Cell, api.EscapeFormulas(c.Text), "%q", c.Text)
		require.Equal(t, c.Text, api.UnescapeFormulas(c.Cell), "%q", c.Cell)
	}
}

func TestUnescapeFormulasReversesEscapeFormulas(t *testing.T) {
	part := rapid.OneOf(rapid.SampledFrom([]string{"=", "＝", "-", "'", "''", ";", " ", "\t", "\n", "\r", "\u200b",
		"\u3164", "a"}), rapid.StringN(0, 2, -1))
	rapid.Check(t, func(t *rapid.T) {
		cell := ""
		for _, p := range rapid.SliceOf(part).Draw(t, "parts") {
			cell += p
		}
		require.Equal(t, cell, api.UnescapeFormulas(api.EscapeFormulas(cell)))
	})
}
