package pagetext_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/history/internal/pagetext"
)

func find(text string, q api.Quote) api.Finding {
	finding, _ := pagetext.Find(text, q)
	return finding
}

func TestNormalize(t *testing.T) {
	for in, want := range map[string]string{
		" a\t b\r\n\u00A0c\u202Fd\u3000e\u2009 ":      "a b c d e",
		"l’heure ‘a’ “b” «c» „d‟ 5′ `e´":              `l'heure 'a' "b" "c" "d" 5' 'e'`,
		"10–20 — 30 ‑ −5…":                            "10-20 - 30 - -5...",
		"trans\u00ADcribe\u200B \uFEFFnow\u2060":      "transcribe now",
		"e\u0301t\u00E9 e\u200B\u0301":                "été é",
		"\u1FEFa\u1FFD":                               "'a'",
		"a\u0000b\u0085c\u202Ed":                      "a\uFFFDb c\uFFFDd",
		"ﬁne ① Ａ K":                                   "ﬁne ① Ａ K",   // compatibility characters stay
		"раy PAY pay":                                 "раy PAY pay", // look-alikes stay
		"\u200B \u00AD":                               "",
		"<b>&amp;</b>":                                "<b>&amp;</b>",
		"\U000E0061hidden tag\U000E0062, flag \u200D": "hidden tag, flag",
	} {
		require.Equal(t, want, pagetext.Normalize(in), "%q", in)
		require.Equal(t, want, pagetext.Normalize(want), "%q twice", in)
	}
}

func TestFind(t *testing.T) {
	const text = "Transcriber\nYou earn $20 per hour, paid weekly.\n" +
		"No experience required. Open to residents of Canada.\nTraducteurs : 1 500 $ par mois, l'été."
	for name, c := range map[string]struct {
		prefix, exact, suffix string
		want                  api.Finding
	}{
		"surrounded":               {"You earn ", "$20 per hour", ", paid", api.QuotePresent},
		"without surroundings":     {"", "$20 per hour", "", api.QuotePresent},
		"surroundings cut in word": {"rn ", "$20 per hour", ", pa", api.QuotePresent},
		"trimmed surroundings":     {"earn", "$20", "per hour", api.QuotePresent},
		"across lines": {"Transcriber You", "earn $20 per hour, paid weekly. No", "experience",
			api.QuotePresent},
		"other typography":       {"", "1 500 $ par mois, l’e\u0301te\u0301", ".", api.QuotePresent},
		"other prefix":           {"We pay ", "$20 per hour", ", paid", api.QuoteMoved},
		"other suffix":           {"earn ", "$20 per hour", " at least", api.QuoteMoved},
		"other text":             {"earn ", "$25 per hour", ", paid", api.QuoteMissing},
		"longer amount":          {"", "earn $2", "", api.QuoteMissing},
		"rest of an amount":      {"", "500 $ par mois", "", api.QuoteMissing},
		"start of an amount":     {"Traducteurs : ", "1", "", api.QuoteMissing},
		"part of a word":         {"", "experience require", "", api.QuoteMissing},
		"part of a word, stated": {"No ", "experience require", "d. Open", api.QuotePresent},
		"upper case":             {"", "NO EXPERIENCE REQUIRED", "", api.QuoteMissing},
		"look-alike":             {"", "$20 рer hour", "", api.QuoteMissing},
		"empty":                  {"You", " \u200B ", "earn", api.QuoteMissing},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, find(text, api.Quote{Prefix: c.prefix, Exact: c.exact, Suffix: c.suffix}))
		})
	}
	for name, c := range map[string]struct{ text, exact string }{
		"decimals": {"Pay is $20.50.", "$20"}, "thousands": {"Pay is $20,000.", "$20"},
		"thousands in French": {"Paie : 20 000 $", "20"},
		"more digits":         {"Pay is $200.", "$20"}, "another dollar": {"Pay is CA$20.", "$20"},
		"thousands as k":   {"Pay is $20k.", "$20"},
		"rest of decimals": {"Pay is 1,500 dollars", "500 dollars"}, "accent": {"cafe\u0327s", "cafe"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, api.QuoteMissing, find(c.text, api.Quote{Exact: c.exact}))
		})
	}
	require.Equal(t, api.QuotePresent, find("Pay is $200. It was $20, before.", api.Quote{Exact: "$20"}),
		"a later occurrence")
	require.Equal(t, api.QuotePresent, find("時給は1500円です", api.Quote{Exact: "時給は"}),
		"words that are not separated")
	require.Equal(t, api.QuoteMissing, find(strings.Repeat("a", 4<<20), api.Quote{Exact: "a"}))
}

func TestLocateReturnsTheNewSurroundingsOfAMovedQuote(t *testing.T) {
	quote := api.Quote{Fact: "pay", SourceURL: "https://a.example", Exact: "$20  per hour", Prefix: "We pay ",
		Suffix: ", weekly"}
	for name, c := range map[string]struct{ text, prefix, suffix string }{
		"elsewhere":    {"Pay\nSellers earn $20 per hour\nand more.", "Pay Sellers earn", "and more."},
		"at both ends": {"$20 per hour", "", ""},
		"beside a part": {"It was $20 per hour then. Now: $20 per hour, weekly.",
			"It was $20 per hour then. Now:", ", weekly."},
		"long surroundings": {strings.Repeat("é", 80) + " $20 per hour " + strings.Repeat("ü", 80),
			strings.Repeat("é", 59), strings.Repeat("ü", 59)},
		"not a longer amount": {"Pay CA$20 per hour, or $20 per hour.", "Pay CA$20 per hour, or", "."},
	} {
		t.Run(name, func(t *testing.T) {
			finding, moved := pagetext.Find(c.text, quote)
			require.Equal(t, api.QuoteMoved, finding)
			require.Equal(t, api.Quote{Fact: "pay", SourceURL: "https://a.example", Exact: quote.Exact,
				Prefix: c.prefix, Suffix: c.suffix}, *moved)
			require.Equal(t, api.QuotePresent, find(c.text, *moved), "it stays where it is")
		})
	}
	for _, text := range []string{"We pay $20 per hour, weekly.", "We pay nothing."} {
		_, moved := pagetext.Find(text, quote)
		require.Nil(t, moved)
	}
}

func TestNearestSentence(t *testing.T) {
	const text = "Who we are\nWe pay for your time. Sellers earn $18 to $19 CAD per hour on average. " +
		"Payment is weekly.\nOuvert aux résidents du Québec et de l'Ontario."
	for exact, want := range map[string]string{
		"Sellers earn $20 to $25 CAD per hour on average.": "Sellers earn $18 to $19 CAD per hour on average.",
		"PAYMENT: every week, weekly":                      "Payment is weekly.",
		"Ouvert aux residents du Quebec":                   "Ouvert aux résidents du Québec et de l'Ontario.",
		"No degree is required":                            "",
		"!":                                                "",
		"":                                                 "",
	} {
		near, found := pagetext.Nearest(text, api.Quote{Fact: "pay", SourceURL: "https://a.example", Exact: exact})
		require.Equal(t, want, near.Exact, exact)
		require.Equal(t, want != "", found)
		if found {
			require.Equal(t, []string{"pay", "https://a.example"}, []string{near.Fact, near.SourceURL})
			require.Equal(t, api.QuotePresent, find(text, near))
		}
	}
}
