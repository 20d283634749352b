package linkcheck

import (
	"net/http"
	"net/url"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// The expected URLs are those of browsers: new URL(location, base).href without the fragment.
func TestLocationIsReadAsByBrowsers(t *testing.T) {
	base, err := url.Parse("https://maple.works/jobs/apply?a=1")
	require.NoError(t, err)
	for location, want := range map[string]string{
		"/x":                        "https://maple.works/x",
		"x":                         "https://maple.works/jobs/x",
		"x:80/y":                    "x:80/y",
		"./x":                       "https://maple.works/jobs/x",
		"../x/./y/..":               "https://maple.works/x/",
		"../../../x":                "https://maple.works/x",
		"%2e%2E/x":                  "https://maple.works/x",
		"?b=2":                      "https://maple.works/jobs/apply?b=2",
		"?":                         "https://maple.works/jobs/apply?",
		"#top":                      "https://maple.works/jobs/apply?a=1",
		"/x#a#b":                    "https://maple.works/x",
		"//birch.works":             "https://birch.works/",
		"//birch.works?x":           "https://birch.works/?x",
		"///birch.works/x":          "https://birch.works/x",
		`\\\\birch.works\x`:         "https://birch.works/x",
		`/\birch.works/x`:           "https://birch.works/x",
		`/a\b?c\d`:                  `https://maple.works/a/b?c\d`,
		"http:/birch.works/x":       "http://birch.works/x",
		"http:birch.works":          "http://birch.works/",
		"https:/x":                  "https://maple.works/x",
		"https:x":                   "https://maple.works/jobs/x",
		"HTTPS://Birch.works/x":     "https://Birch.works/x",
		"https:////birch.works/x":   "https://birch.works/x",
		"  /x y \t":                 "https://maple.works/x%20y",
		"/a\tb":                     "https://maple.works/ab",
		"/x?q=a b":                  "https://maple.works/x?q=a%20b",
		"/café":                     "https://maple.works/caf%C3%A9",
		"/x?q=é":                    "https://maple.works/x?q=%C3%A9",
		"/\xe9":                     "https://maple.works/%E9",
		"/a%zz":                     "https://maple.works/a%25zz",
		"/100%/x":                   "https://maple.works/100%25/x",
		"/x?q=100%":                 "https://maple.works/x?q=100%25",
		"/100%25/x%2Fy":             "https://maple.works/100%25/x%2Fy",
		"/a[b]{c}|d":                "https://maple.works/a[b]%7Bc%7D%7Cd",
		"/x;y=1,2:3@4!$&'()*+":      "https://maple.works/x;y=1,2:3@4!$&'()*+",
		"/x//y/":                    "https://maple.works/x//y/",
		"http://maple.works:8080/x": "http://maple.works:8080/x",
		"mailto:jobs@maple.works":   "mailto:jobs@maple.works",
		"javascript:alert(1)":       "javascript:alert(1)",
		"http://[2001:db8::1]/x":    "http://[2001:db8::1]/x",
		"":                          "",
		"  ":                        "",
		"http://":                   "",
		"http://a b/":               "",
		"http://maple.works:port/":  "",
		"http://[2001:db8::1/x":     "",
	} {
		got := resolveLocation(base, location)
		if want == "" {
			require.Nil(t, got, location)
			continue
		}
		require.NotNil(t, got, location)
		require.Equal(t, want, got.String(), location)
	}
}

func FuzzLocation(f *testing.F) {
	f.Add("/a?b", "/100%/x")
	f.Add("", `\\birch.works\x?y z`)
	f.Fuzz(func(t *testing.T, from, location string) {
		base := resolveLocation(&url.URL{Scheme: "https", Host: "maple.works", Path: "/"}, "/"+from)
		if base == nil {
			return
		}
		got := resolveLocation(base, location)
		if got == nil || got.Opaque != "" {
			return
		}
		again, err := url.Parse(got.String())
		require.NoError(t, err)
		require.Equal(t, got.Host, again.Host)
		require.Equal(t, got.EscapedPath(), again.EscapedPath())
		require.Equal(t, got.RawQuery, again.RawQuery)
		require.Empty(t, got.Fragment)
	})
}

func TestCookiesLastForOneCheck(t *testing.T) {
	w := newFakeNet(t)
	w.on("/apply", func(out http.ResponseWriter, r *http.Request) {
		if _, err := r.Cookie("seen"); err != nil {
			http.SetCookie(out, &http.Cookie{Name: "seen", Value: "1"})
			http.Redirect(out, r, "/apply", http.StatusFound)
		}
	})
	for range 2 {
		require.Equal(t, reachable, w.try("http://maple.works:PORT/apply").outcome)
	}
	require.Len(t, w.paths("maple.works"), 4, "a check must not have the cookies of another")

	requests := 0
	w.on("/endless", func(out http.ResponseWriter, r *http.Request) {
		requests++
		http.SetCookie(out, &http.Cookie{Name: "n", Value: strconv.Itoa(requests)})
		http.Redirect(out, r, "/endless", http.StatusFound)
	})
	got := w.try("http://maple.works:PORT/endless")
	require.Equal(t, unreachable, got.outcome)
	require.Contains(t, got.note, "more than 5 redirects")
	require.Equal(t, maxRedirects+1, requests)
}

func TestCookiesStayOnTheirSite(t *testing.T) {
	w := newFakeNet(t)
	set := func(domain, to string) http.HandlerFunc {
		return func(out http.ResponseWriter, r *http.Request) {
			http.SetCookie(out, &http.Cookie{Name: "id", Value: "1", Domain: domain, Path: "/"})
			w.redirect(302, to)(out, r)
		}
	}
	for name, c := range map[string]struct {
		link, domain, to string
		sent             bool
	}{
		"another host of the site": {"http://maple.works:PORT/apply", "maple.works",
			"http://jobs.maple.works:PORT/next", true},
		"another host, without a domain": {"http://maple.works:PORT/apply", "", "http://jobs.maple.works:PORT/next",
			false},
		"another site": {"http://maple.works:PORT/apply", "maple.works",
			"http://birch.works:PORT/next", false},
		"a public suffix": {"http://maple.github.io:PORT/apply", "github.io",
			"http://birch.github.io:PORT/next", false},
	} {
		t.Run(name, func(t *testing.T) {
			w.on("/apply", set(c.domain, c.to))
			sent := false
			w.on("/next", func(_ http.ResponseWriter, r *http.Request) { sent = r.Header.Get("Cookie") != "" })
			w.on("/robots.txt", func(out http.ResponseWriter, r *http.Request) {
				require.Empty(t, r.Header.Get("Cookie"))
				out.WriteHeader(404)
			})
			w.try(c.link)
			require.Equal(t, c.sent, sent)
		})
	}
}
