package linkcheck

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func robots(text string) http.HandlerFunc {
	return func(out http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(out, text) }
}

func TestRobotsRulesAreFollowed(t *testing.T) {
	for _, c := range []struct {
		name   string
		robots http.HandlerFunc
		note   string // empty: the page was requested
	}{
		{"none", status(404), ""},
		{"forbidden to read", status(403), ""},
		{"empty", robots(""), ""},
		{"disallowed", robots("User-agent: *\nDisallow: /"), "Not requested: its robots.txt disallows the page."},
		{"a pattern with a query", robots("User-agent: *\nDisallow: /*?ref="),
			"Not requested: its robots.txt disallows the page."},
		{"too many requests", status(429), "Answered 429 for its robots.txt, so the page was not requested."},
		{"broken", status(503), "Answered 503 for its robots.txt, so the page was not requested."},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFakeNet(t)
			w.on("/robots.txt", c.robots)
			got := w.try("http://maple.works:PORT/apply?ref=1")
			if c.note == "" {
				require.Equal(t, result{outcome: reachable, note: "Answered 200.", retry: false}, got)
				return
			}
			require.Equal(t, c.note, got.note)
			require.Empty(t, w.paths("maple.works"))
			require.Equal(t, map[bool]string{true: "unreachable", false: "blocked"}[c.name == "broken"],
				string(got.outcome))
			require.Equal(t, c.name == "broken", got.retry)
		})
	}
}

func TestRobotsBehindRedirects(t *testing.T) {
	w := newFakeNet(t)
	w.on("maple.works/robots.txt", w.redirect(301, "http://www.maple.works:PORT/robots.txt"))
	w.on("www.maple.works/robots.txt", robots("User-agent: *\nDisallow: /apply"))
	require.Equal(t, blocked, w.try("http://maple.works:PORT/apply").outcome)
	for _, to := range []string{"http://maple.works:PORT/robots.txt", "file:///etc/passwd",
		"http://10.0.0.1:PORT/robots.txt", "http://localhost:PORT/"} {
		w.on("maple.works/robots.txt", w.redirect(301, to))
		require.Equal(t, reachable, w.try("http://maple.works:PORT/other").outcome, to)
	}
}

func TestRobotsOfEveryHostInChainAreFollowed(t *testing.T) {
	w := newFakeNet(t)
	w.on("maple.works/apply", w.redirect(302, "http://jobs.maple.works:PORT/apply"))
	w.on("jobs.maple.works/robots.txt", robots("User-agent: *\nDisallow: /"))
	got := w.try("http://maple.works:PORT/apply")
	require.Equal(t, blocked, got.outcome)
	require.Equal(t, w.fill("Answered 302 with a redirect to http://jobs.maple.works:PORT/apply, then not requested: "+
		"its robots.txt disallows the page."),
		got.note)
	require.Empty(t, w.paths("jobs.maple.works"))
}

func TestOnlyTheBeginningOfRobotsIsRead(t *testing.T) {
	w := newFakeNet(t)
	var body counted
	ended := make(chan struct{})
	w.on("/robots.txt", func(out http.ResponseWriter, r *http.Request) {
		defer close(ended)
		_, _ = io.WriteString(out, "User-agent: *\nDisallow: /apply\n")
		body.repeat(out, strings.Repeat("\x00", 64<<10))
	})
	require.Equal(t, blocked, w.try("http://maple.works:PORT/apply").outcome)
	<-ended
	require.Less(t, body.sent.Load(), int64(fewBytes))
}

func TestCrawlDelay(t *testing.T) {
	for text, delay := range map[string]time.Duration{
		"Crawl-delay: 2.5": 2500 * time.Millisecond, "Crawl-delay: 1e300": day, "Crawl-delay: NaN": 0,
		"Crawl-delay: Inf": day,
	} {
		require.Equal(t, delay, parseRules([]byte("User-agent: *\n"+text)).delay, text)
	}
}

// The cases with a comment are from RFC 9309.
func TestRobotsRules(t *testing.T) {
	const everyone = "User-agent: *\n"
	for _, c := range []struct {
		robots, path string
		allowed      bool
	}{
		// Percent-encoding (2.2.2).
		{everyone + "Disallow: /café", "/caf%C3%A9", false},
		{everyone + "Disallow: /café", "/caf%c3%a9/x", false},
		{everyone + "Disallow: /caf%C3%A9", "/café", false},
		{everyone + "Disallow: /%61pply", "/apply", false},
		{everyone + "Disallow: /apply", "/%61%70ply", false},
		{everyone + "Disallow: /a~b", "/a%7Eb", false},
		{everyone + "Disallow: /a%7eb", "/a~b", false},
		{everyone + "Disallow: /foo/bar/ツ", "/foo/bar/%E3%83%84", false},
		{everyone + "Disallow: /foo/bar/%62%61%7A", "/foo/bar/baz", false},
		{everyone + "Disallow: /foo/bar?baz=https://foo.bar", "/foo/bar?baz=https%3A%2F%2Ffoo.bar", false},
		{everyone + "Disallow: /foo/bar?baz=https%3A%2F%2Ffoo.bar", "/foo/bar?baz=https://foo.bar", false},
		{everyone + "Disallow: /a:b@c,d", "/a%3Ab%40c%2Cd", false},
		{everyone + "Disallow: /a%2Fb", "/a/b", true}, // another path
		{everyone + "Disallow: /a%2fb", "/a%2Fb", false},
		{everyone + "Disallow: /a%3Fb", "/a?b", true},
		{everyone + "Disallow: /100%", "/100%25", false},
		{everyone + "Disallow: /100%zz", "/100%25zz", false},
		{everyone + "Disallow: /Apply", "/apply", true},
		// Wildcards (2.2.3).
		{everyone + "Disallow: /*.php$", "/x/y.php", false},
		{everyone + "Disallow: /*.php$", "/x/y.php?a=1", true},
		{everyone + "Disallow: /*.php$", "/a.php/b.php", false},
		{everyone + "Disallow: /a*b*c", "/axxbyyc/z", false},
		{everyone + "Disallow: /a*b*c", "/axxcyyb", true},
		{everyone + "Disallow: /ab*bc$", "/abc", true},
		{everyone + "Disallow: */private", "/x/private", false},
		{everyone + "Disallow: *?ref=", "/x?ref=1", false},
		{everyone + "Disallow: /*/admin", "/go?to=/admin", false},
		{everyone + "Disallow: /$", "/", false},
		{everyone + "Disallow: /$", "/x", true},
		{everyone + "Disallow: /a$b", "/a$b", false},
		{everyone + "Disallow: /a%24", "/a$/b", false},
		{everyone + "Disallow: /file-%2A.html", "/file-*.html", false},
		{everyone + "Disallow: /file-%2A.html", "/file-x.html", true},
		// The most specific rule decides, then Allow (2.2.2).
		{everyone + "Allow: /example/page/\nDisallow: /example/page/disallowed.gif", "/example/page/disallowed.gif",
			false},
		{everyone + "Disallow: /\nAllow: /apply", "/apply/now", true},
		{everyone + "Allow: /apply\nDisallow: /apply", "/apply", true},
		{everyone + "Disallow: /apply\nAllow: /apply", "/apply", true},
		{everyone + "Disallow: /a*y\nAllow: /appl", "/apply", true},
		{everyone + "Disallow: /café\nAllow: /caf%C3%A9", "/caf%C3%A9", true},
		{everyone + "Disallow:\nAllow: /x", "/apply", true},
		{everyone + "Disallow: apply", "/apply", false},
		// User agents and groups (2.2.1).
		{"User-agent: OpportunityLinkCheck/1.0\nDisallow: /", "/apply", false},
		{"user-AGENT: OPPORTUNITYLINKCHECK\ndisALLOW: /", "/apply", false},
		{"User-agent: Opportunity\nDisallow: /", "/apply", true},
		{"User-agent: OpportunityLinkChecker\nDisallow: /", "/apply", true},
		{"User-agent: OpportunityLinkCheck (any version)\nDisallow: /", "/apply", false},
		{everyone + "Disallow: /\nUser-agent: OpportunityLinkCheck\nAllow: /x", "/apply", true},
		{"User-agent: OpportunityLinkCheck\nUser-agent: x\nDisallow: /a\nUser-agent: x\nDisallow: /\n" +
			"User-agent: opportunitylinkcheck\nDisallow: /b", "/apply", false},
		{"User-agent: OpportunityLinkCheck\nDisallow: /a\nUser-agent: x\nDisallow: /\nUser-agent: " +
			"opportunitylinkcheck\nDisallow: /b",
			"/b", false},
		{"User-agent: OpportunityLinkCheck\nDisallow: /a\nUser-agent: x\nDisallow: /", "/b", true},
		{everyone + "Disallow: /a\n\n" + everyone + "Disallow: /b", "/a", false},
		{"User-agent: OpportunityLinkCheck\nSitemap: https://x\nCrawl-delay: 1\n\nUser-agent: x\nDisallow: /", "/apply",
			false},
		{"Disallow: /\n" + everyone + "Disallow: /x", "/apply", true},
		// Lines.
		{"\ufeffUser-agent: *\rDisallow: /\r", "/apply", false},
		{"User-agent: *\r\n\r\n \tDisallow \t: /apply # here\r\n", "/apply", false},
		{"User-agent: * # all\nDisallow: /#", "/", false},
	} {
		u, err := url.Parse("https://maple.works" + c.path)
		require.NoError(t, err)
		require.Equal(t, c.allowed, parseRules([]byte(c.robots)).allows(u), "%s of\n%s", c.path, c.robots)
	}
}

func TestRobotsUpTo500KiBCount(t *testing.T) {
	w := newFakeNet(t)
	const last = "\nDisallow: /apply\n"
	filler := "User-agent: *\n" + strings.Repeat("Disallow: /x/y\n", 40<<10)
	full := filler[:500<<10-len(last)-1] + "\n" + last[:len(last)-1] + "\n"
	w.on("/robots.txt", robots(full[:500<<10]))
	require.Equal(t, blocked, w.try("http://maple.works:PORT/apply").outcome)
	w.on("/robots.txt", robots(filler[:500<<10-12]+"\nDisallow: /a"+"pply-there"))
	require.Equal(t, reachable, w.try("http://maple.works:PORT/apply").outcome, "an incomplete line is no rule")
}

func FuzzRobots(f *testing.F) {
	f.Add([]byte("User-agent: *\nDisallow: /*.php$\nCrawl-delay: 1"), "/x.php")
	f.Add([]byte("User-agent: OpportunityLinkCheck/1.0\rAllow: /caf%C3%A9\rDisallow: /café*b"), "/caf\xe9?a=%2F")
	f.Fuzz(func(t *testing.T, text []byte, path string) {
		r := parseRules(text)
		u := &url.URL{Scheme: "https", Host: "maple.works", Path: "/" + path}
		require.GreaterOrEqual(t, r.delay, time.Duration(0))
		require.LessOrEqual(t, r.delay, day)
		again, err := url.Parse(u.String())
		require.NoError(t, err)
		require.Equal(t, r.allows(u), r.allows(again))

		// A path names itself, and a rule for all paths the same with its Allow.
		exact := parseRules([]byte("User-agent: *\nDisallow: " + u.EscapedPath() + "$"))
		require.False(t, exact.allows(u), u.EscapedPath())
		both := parseRules([]byte("User-agent: *\nDisallow: " + u.EscapedPath() + "\nAllow: " + u.EscapedPath()))
		require.True(t, both.allows(u), u.EscapedPath())
	})
}
