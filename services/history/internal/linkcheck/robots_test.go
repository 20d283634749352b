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
		{"all agents disallowed", robots("User-agent: *\nDisallow: /"), "Not requested: its robots.txt disallows the page."},
		{"this agent disallowed", robots("User-agent: *\nAllow: /\n\nUser-agent: opportunitylinkcheck\nDisallow: /apply"),
			"Not requested: its robots.txt disallows the page."},
		{"other agents disallowed", robots("User-agent: BadBot\nDisallow: /"), ""},
		{"this agent allowed", robots("User-agent: *\nDisallow: /\n\nUser-agent: OpportunityLinkCheck\nAllow: /apply\nDisallow: /"), ""},
		{"the longer rule counts", robots("User-agent: *\nDisallow: /\nAllow: /apply"), ""},
		{"a pattern with a query", robots("User-agent: *\nDisallow: /*?ref="), "Not requested: its robots.txt disallows the page."},
		{"a star alone", robots("User-agent: *\nDisallow: *"), "Not requested: its robots.txt disallows the page."},
		{"with a byte order mark, comments and mistakes", robots("\ufeffDisallow: /x\nUser-agent: * # all\nCrawl-delay: soon\nCrawl-delay: -1\n" +
			"Sitemap: x\nNonsense\nDisallow: /"), "Not requested: its robots.txt disallows the page."},
		{"a web page", robots("<!doctype html><title>Maple</title><p>User-agent: *</p>"), ""},
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
			require.Equal(t, map[bool]string{true: "unreachable", false: "blocked"}[c.name == "broken"], string(got.outcome))
			require.Equal(t, c.name == "broken", got.retry)
		})
	}
}

func TestRobotsBehindRedirects(t *testing.T) {
	w := newFakeNet(t)
	w.on("maple.works/robots.txt", w.redirect(301, "http://www.maple.works:PORT/robots.txt"))
	w.on("www.maple.works/robots.txt", robots("User-agent: *\nDisallow: /apply"))
	require.Equal(t, blocked, w.try("http://maple.works:PORT/apply").outcome)
	for _, to := range []string{"http://maple.works:PORT/robots.txt", "file:///etc/passwd", "http://10.0.0.1:PORT/robots.txt", "http://localhost:PORT/"} {
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
	require.Equal(t, w.fill("Answered 302 with a redirect to http://jobs.maple.works:PORT/apply, then not requested: its robots.txt disallows the page."),
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
		body.endless(out, r)
	})
	require.Equal(t, blocked, w.try("http://maple.works:PORT/apply").outcome)
	<-ended
	require.Less(t, body.sent.Load(), int64(fewBytes))
}

func TestCrawlDelay(t *testing.T) {
	for text, delay := range map[string]time.Duration{
		"Crawl-delay: 2.5": 2500 * time.Millisecond, "Crawl-delay: 1e300": day, "Crawl-delay: NaN": 0, "Crawl-delay: Inf": day,
	} {
		require.Equal(t, delay, parseRules([]byte("User-agent: *\n"+text)).delay, text)
	}
}

func FuzzRobots(f *testing.F) {
	f.Add([]byte("User-agent: *\nDisallow: /*.php$\nCrawl-delay: 1"), "/x.php")
	u, _ := url.Parse("https://maple.works/apply?x=1")
	f.Fuzz(func(t *testing.T, text []byte, path string) {
		r := parseRules(text)
		r.allows(u)
		r.allows(&url.URL{Path: path})
		require.GreaterOrEqual(t, r.delay, time.Duration(0))
		require.LessOrEqual(t, r.delay, day)
		require.True(t, parseRules([]byte(strings.Repeat("#\n", 10)+string(text))).delay >= 0)
	})
}
