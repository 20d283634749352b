package pagetext_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/history/internal/pagetext"
)

// hostile pages use their size against the reader.
var hostile = map[string]string{
	"angle brackets":          strings.Repeat("<", 4<<20),
	"end tags":                strings.Repeat("<b hidden>", 400) + strings.Repeat("</i>", 1<<20),
	"nested blocks":           strings.Repeat("<div>", 500) + strings.Repeat("<p></b>", 500_000),
	"nested inline":           strings.Repeat("<b>", 1<<20),
	"implied ends":            "<table>" + strings.Repeat("<tr><td>", 500_000),
	"attributes":              "<p" + many(400_000, " a%d") + ">" + strings.Repeat("<b c>", 300_000),
	"one attribute":           "<p title='" + strings.Repeat("&amp;", 800_000) + "'>a",
	"styles":                  strings.Repeat("<b style='"+strings.Repeat(" ", 900)+"'>", 4000),
	"entities":                strings.Repeat("&NotNestedGreaterGreater;", 160_000),
	"entities without end":    strings.Repeat("&a", 2<<20),
	"entity declarations":     "<!DOCTYPE a [" + many(100_000, `<!ENTITY e%d "&e;&e;&e;">`) + "]>&e1;",
	"combining marks":         "a" + strings.Repeat("\u0301", 2<<20),
	"expanding characters":    strings.Repeat("\U0001D160", 1<<20),
	"undecodable":             strings.Repeat("a\xff", 2<<20),
	"sentences":               strings.Repeat("A. ", 1<<20),
	"words that patterns use": strings.Repeat("we are no longer a program that is closed to pay $1 per ", 70_000),
	"amounts":                 strings.Repeat("$1 ", 1<<20),
	"comments":                strings.Repeat("<!-->", 800_000),
	"unclosed script":         "<script>" + strings.Repeat("<!--<script>", 300_000),
	"title":                   "<title>" + strings.Repeat("a", 4<<20-100),
	"lines":                   strings.Repeat("a<br>", 800_000),
}

func many(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// A hostile page takes memory in proportion to its size.
func TestMemoryForHostilePages(t *testing.T) {
	for name, body := range hostile {
		t.Run(name, func(t *testing.T) {
			body := []byte(body[:min(len(body), 256<<10)])
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			p, _ := pagetext.Read(html, body)
			find(p.Text, api.Quote{Exact: "$1"})
			pagetext.Closed(p)
			quotes := pagetext.Suggest("https://jobs.example/", p)
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64*len(body)), "bytes allocated")
			require.LessOrEqual(t, len(p.Text), 3*len(body))
			require.LessOrEqual(t, len(quotes), 20)
		})
	}
}
