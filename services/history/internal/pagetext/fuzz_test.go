package pagetext_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/history/internal/pagetext"
)

// FuzzRead checks what holds for every page: the text is normalized, suggestions are quotes within
// the limits that are present on their page, and a page that is closed says so.
func FuzzRead(f *testing.F) {
	for _, body := range hostile {
		f.Add(html, body[:min(len(body), 2000)])
	}
	f.Add(html, "<title>Work</title><nav>Menu</nav><p>You earn $0.75 to $1.25 per audio <b>minute</b>.</p><script>var a")
	f.Add("text/plain", "Pay: $20 per hour.\r\n\r\nThis program is closed.")
	f.Add("", "\xfe\xff\x00<\x00p\x00>\x00$\x002\x000")
	f.Add("text/html; charset=iso-2022-jp", "<p>\x1b$B$3$s\x1b(B $20 per hour")
	f.Add("text/html; charset=gb18030", "<p>\x81\x30\x81\x30 must be 18")
	f.Add(html, "<svg><style/><title/><template><select><p hidden><table><td></svg></p>Remote")
	f.Fuzz(func(t *testing.T, contentType, body string) {
		p, err := pagetext.Read(contentType, []byte(body))
		if err != nil {
			var unreadable *pagetext.Unreadable
			require.ErrorAs(t, err, &unreadable)
			require.NotEmpty(t, unreadable.Reason)
			return
		}
		require.True(t, utf8.ValidString(p.Title) && utf8.ValidString(p.Text))
		for line := range strings.SplitSeq(p.Text, "\n") {
			require.NotEmpty(t, line)
			require.Equal(t, line, pagetext.Normalize(line))
		}
		if claim := pagetext.Closed(p); claim != nil {
			require.Contains(t, p.Title+"\n"+p.Text, claim.Sentence)
			require.LessOrEqual(t, utf8.RuneCountInString(claim.Sentence), 200)
		}
		quotes := pagetext.Suggest("https://jobs.example/", p)
		require.LessOrEqual(t, len(quotes), 20)
		for _, q := range quotes {
			require.Contains(t, api.FactNames, q.Fact)
			require.LessOrEqual(t, utf8.RuneCountInString(q.Exact), api.MaxQuote)
			require.LessOrEqual(t, utf8.RuneCountInString(q.Prefix), api.MaxQuoteContext)
			require.LessOrEqual(t, utf8.RuneCountInString(q.Suffix), api.MaxQuoteContext)
			require.Equal(t, api.QuotePresent, find(p.Text, q), "%+v", q)
			q.Prefix, q.Suffix = "other\uFFFD", "other\uFFFD"
			if finding, moved := pagetext.Find(p.Text, q); finding == api.QuoteMoved {
				require.Equal(t, api.QuotePresent, find(p.Text, *moved), "%+v", moved)
			}
		}
	})
}

// FuzzNormalize checks that normalized text is stable and has neither markup nor controls that the
// text did not have.
func FuzzNormalize(f *testing.F) {
	for _, text := range []string{"a\u00A0b", "e\u200B\u0301", "\u1FEF", "“x”", "\xff", "\u202Ea", "\u1100\u1161\u11A8",
		"<\u0338", "\u0344\u0F73", " \u0308"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		once := pagetext.Normalize(text)
		require.Equal(t, once, pagetext.Normalize(once))
		require.True(t, utf8.ValidString(once))
		require.LessOrEqual(t, strings.Count(once, "<"), strings.Count(text, "<"))
		require.NotContains(t, once, "\n")
		require.NotContains(t, once, "\x00")
	})
}
