package pagetext_test

import (
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/history/internal/pagetext"
)

const html = "text/html; charset=utf-8"

// filler makes a page long enough not to look like a shell for a script.
var filler = "<p>" + strings.Repeat("Contributors transcribe recorded interviews from a queue. ", 40) + "</p>"

// long is longer than the tags after which the tokenizer is replaced.
var long = strings.Repeat("M0 0 ", 1000)

func read(t *testing.T, contentType, body string) pagetext.Page {
	t.Helper()
	p, err := pagetext.Read(contentType, []byte(body))
	require.NoError(t, err)
	return p
}

func TestVisibleTextOfAPage(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"blocks are lines": {"<h1>Pay</h1><p>You earn\n $20.</p><ul><li>One<li>Two</ul>",
			"Pay\nYou earn $20.\nOne\nTwo"},
		"inline elements join": {"<p><b>W</b>ork <a href=/>here</a>.<span>Now</span></p>",
			"Work here.Now"},
		"line break": {"Pay:<br>$20", "Pay:\n$20"},
		"cells are words of a line": {"<table><tr><th>Rate<td>$20<tr><td>Unit</td><td>hour</td></tr></table>after",
			"Rate $20\nUnit hour\nafter"},
		"entities": {"<p>caf&eacute; &amp; th&#233; &#x24;20&nbsp;&mdash;&nbsp;fin",
			"café & thé $20 - fin"},
		"markup in entities stays text": {"<p>&lt;script&gt;alert(1)&lt;/script&gt;",
			"<script>alert(1)</script>"},
		"entities are decoded once": {"<p>&amp;lt;b&amp;gt;", "&lt;b&gt;"},
		"script, style, template, noscript": {"<style>p{}</style>a<script>b</script>c" +
			"<template><p>d</p></template>e<noscript>f</noscript>g", "aceg"},
		"images, frames, form fields": {"a<svg><title>b</title><text>c</text></svg>" +
			"<iframe>d</iframe><select><option>e</select><textarea>f</textarea>g", "ag"},
		"self-closing title of an image": {"a<svg><title/><style/><path d='M0'/></svg>b", "ab"},
		"struck out":                     {"<p>Pay: <s>$30</s> <del>$25</del> $20", "Pay: $20"},
		"comments and CDATA":             {"a<!-- b --><![CDATA[c]]>d<!-- <p> -->e", "ade"},
		"hidden attribute":               {"<p>a<p hidden>b<p>c<div hidden=until-found>d</div>", "a\nc\nd"},
		"hidden by style": {"<div style='color:red; DISPLAY : none " +
			"!important'>a<div>b</div>c</div>d<span style=visibility:hidden>e</span>f", "df"},
		"hidden body is shown by scripts":      {"<html hidden><body style='display:none'>a", "a"},
		"hidden inline element with children":  {"a<span hidden>b<span>c</span>d<b>e</b></span>f", "af"},
		"end tags do not cross blocks":         {"<b>a<div hidden></b>b</div>c</b>d", "a\ncd"},
		"end tags do not leave a template":     {"<div>a<template></div>b</template>c</div>d", "ac\nd"},
		"unclosed hidden element ends with it": {"<section>a<div hidden>b</section>c", "a\nc"},
		"hidden cells":                         {"<table><tr><td>a<td hidden>b<td>c</table>d", "a c\nd"},
		"closed and open dialogs":              {"<dialog>a</dialog><dialog open>b</dialog>c", "b\nc"},
		"attribute with markup":                {`<p title="<p>a</p>">b</p>`, "b"},
		"raw text":                             {"<xmp><b>a</b>&amp;</xmp>b", "<b>a</b>&amp;\nb"},
		"long script tag": {"a<script data-x='" + long +
			"'>'<p>b</p>'</script>c<template title='" + long + "'><p>d</p></template>e", "ace"},
		"long tag": {"<p title='" + long + "'>a<i " + long + ">b</i></p>c", "ab\nc"},
		"long tags of an image": {"a<svg " + long + "><style " + long + "/><path d='" + long +
			"'/></svg>b", "ab"},
		"controls": {"<p>a&#1;b&#x202E;c</p>", "a\uFFFDb\uFFFDc"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, read(t, html, c.body+"<hr>"+filler).Text[:len(c.want)])
			require.Equal(t, byte('\n'), read(t, html, c.body+"<hr>"+filler+"x").Text[len(c.want)], "more text")
		})
	}
}

func TestTitleOfAPage(t *testing.T) {
	p := read(t, html, "<svg><title>Icon</title></svg><title> Work &amp;\n earn </title><title>Second</title>"+filler)
	require.Equal(t, "Work & earn", p.Title)
	require.NotContains(t, p.Text, "Work & earn")
	require.Len(t, []rune(read(t, html, "<title>"+strings.Repeat("é", 1000)+"</title>"+filler).Title), 300)
}

func TestCharsetOfAPage(t *testing.T) {
	const want = "Rémunération : 20 € de l'heure <b>"
	markup := "<p>Rémunération : 20 € de l’heure &lt;b></p>" + filler
	utf16le, utf16be := []byte{0xff, 0xfe}, []byte{0xfe, 0xff}
	for _, u := range utf16.Encode([]rune(markup)) {
		utf16le, utf16be = append(utf16le, byte(u), byte(u>>8)), append(utf16be, byte(u>>8), byte(u))
	}
	latin := strings.NewReplacer("é", "\xe9", "€", "\x80", "’", "\x92").Replace(markup)
	for name, c := range map[string]struct{ contentType, body string }{
		"header":                    {html, markup},
		"mark, whatever the header": {"text/html; charset=windows-1252", "\xef\xbb\xbf" + markup},
		"UTF-16 little endian":      {html, string(utf16le)},
		"UTF-16 big endian":         {"", string(utf16be)},
		"meta":                      {"text/html", `<meta charset="ISO-8859-1">` + latin},
		"meta with http-equiv": {"text/html",
			`<meta http-equiv=content-type content="text/html; charset=latin1">` + latin},
		"meta that says UTF-16 lies":    {"text/html", `<meta charset=utf-16>` + markup},
		"none, first accent after 1 KB": {"text/html", "<p>" + strings.Repeat(" ", 2000) + markup},
		"none and not UTF-8":            {"text/html", latin},
		"unknown":                       {"text/html; charset=klingon", markup},
		"malformed content type":        {"text/html; charset", markup},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, want, read(t, c.contentType, c.body).Text[:len(want)])
		})
	}
	for _, label := range []string{"utf-7", "unicode-1-1-utf-7", "UTF7"} { // +ADw- is < in UTF-7
		p := read(t, "text/html; charset="+label, "<p>+ADw-script+AD4-x+ADw-/script+AD4-</p>"+filler)
		require.Equal(t, "+ADw-script+AD4-x+ADw-/script+AD4-", strings.Split(p.Text, "\n")[0])
	}
	require.Contains(t, read(t, html, "<p>broken \xff\xc3( text</p>"+filler).Text, "broken \uFFFD\uFFFD( text")
}

func TestPlainTextIsNotReadAsMarkup(t *testing.T) {
	p := read(t, "text/plain", "You earn\r\n<b>$20</b> &amp; more.\r\n\r\nSecond paragraph.")
	require.Equal(t, "You earn <b>$20</b> &amp; more.\nSecond paragraph.", p.Text)
}

func TestUnreadablePages(t *testing.T) {
	for name, c := range map[string]struct{ contentType, body, want string }{
		"PDF":                     {"application/pdf", "%PDF-1.7", "not text"},
		"image":                   {"image/png", "\x89PNG", "not text"},
		"binary served as HTML":   {html, "\x00\x01\x02\x03" + filler, "not text"},
		"another charset":         {"text/html; charset=utf-8", strings.Repeat("\xe9\xff", 500), "not text"},
		"charset that is refused": {"text/html; charset=iso-2022-kr", filler, "not text"},
		"too large":               {html, strings.Repeat("a", pagetext.MaxBody+1), "larger than 4 MB"},
		"nested":                  {html, strings.Repeat("<div>", 100_000) + filler, "too deeply nested"},
		"empty":                   {html, "", "empty"},
		"only hidden text":        {html, "<p hidden>Work</p>", "empty"},
		"empty root": {html, `<title>Jobs</title><body><div id="root"></div><script src=app.js></script>`,
			"drawn by a script"},
		"empty root and a footer": {html, `<div id=__next></div><footer>` +
			strings.Repeat("About us. Contact. Terms. ", 20) + `</footer><script src=app.js></script>`,
			"drawn by a script"},
		"noscript": {html, `<noscript>You need to enable JavaScript to run this app.</noscript><p>` +
			strings.Repeat("About us. ", 30) + `</p><script></script>`, "drawn by a script"},
		"loading": {html, `<p>Chargement en cours</p><script src=app.js></script>`,
			"drawn by a script"},
		"Cloudflare": {html, `<title>Just a moment...</title><p>jobs.example needs to review the security of your ` +
			`connection before proceeding.</p>`, "asks whether the reader is a robot"},
		"human": {html, `<h1>Verify you are human</h1><p>` +
			strings.Repeat("Complete the action below. ", 10), "asks whether the reader is a robot"},
		"humain": {html, `<h1>Vérifiez que vous êtes humain</h1>`,
			"asks whether the reader is a robot"},
		"denied": {html, `<title>Access Denied</title><p>You don't have permission to access this page on this server.`,
			"asks whether the reader is a robot"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := pagetext.Read(c.contentType, []byte(c.body))
			var unreadable *pagetext.Unreadable
			require.ErrorAs(t, err, &unreadable)
			require.Equal(t, c.want, unreadable.Reason)
			require.Zero(t, p)
		})
	}
}

func TestReadablePagesWithScripts(t *testing.T) {
	for name, body := range map[string]string{
		"short without scripts":    "<p>Pay: $20 per hour.</p>",
		"short with data":          `<p>Pay: $20 per hour.</p><script type="application/ld+json">{}</script>`,
		"short and closed":         "<p>This program is closed.</p><script src=analytics.js></script>",
		"rendered root":            `<div id="root">` + filler + `</div><script src=app.js></script>`,
		"long text about captchas": filler + "<p>Verify you are human to log in.</p>",
		"noscript of a tag manager": `<noscript><iframe src=ns.html></iframe></noscript><p>` +
			strings.Repeat("About our work. ", 20) + `</p><script></script>`,
		"600 paragraphs never closed": strings.Repeat("<p>Text <b>bold", 600),
		"100,000 nested spans":        strings.Repeat("<span>", 100_000) + "text",
	} {
		t.Run(name, func(t *testing.T) {
			require.NotEmpty(t, read(t, html, body).Text)
		})
	}
}
