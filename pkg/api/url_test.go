package api_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

func TestCheckURLAcceptsURIs(t *testing.T) {
	for _, text := range []string{
		"https://example.com", "HTTPS://Example.com", "https://example.com/", "http://example.com:8080/a%20b?c=d#e",
		"https://example.com:1", "https://example.com:65535/",
		"https://[2001:db8::1]/", "https://[::1]:8080?a", "http://127.0.0.1:8080", "https://kelp.works./",
		"https://a_b.example/", "https://localhost",
		"https://xn--bcher-kva.example/", "https://example.com?q", "https://example.com#f",
		"https://example.com/a//b;c=1/@x:y,z/~!$&'()*+", "https://example.com/?a=/?:@#/?:@",
		"https://example.com/" + strings.Repeat("a", 2028),
	} {
		require.NoError(t, api.CheckURL(text), text)
		_, err := url.Parse(text)
		require.NoError(t, err)
	}
}

const (
	notName   = ": it must be a name of letters, digits and hyphens, or an IP address"
	notEscape = ": % must be followed by two hexadecimal digits; write %25 for the character itself"
)

func TestCheckURLNamesTheWrongPart(t *testing.T) {
	const absolute = "must be an absolute http or https URL, such as https://example.com/apply"
	for text, want := range map[string]string{
		"":                         absolute,
		"example.com":              absolute,
		"//example.com":            absolute,
		"https:example.com":        absolute,
		"https:/example.com":       absolute,
		"ftp://example.com":        absolute,
		"javascript:alert(1)":      absolute,
		" https://example.com":     absolute,
		"https:///path":            "must be a URL with a host, such as https://example.com/apply",
		"https://?q":               "must be a URL with a host, such as https://example.com/apply",
		"https://user@example.com": "must be a URL without user name and password",
		"https://u:p@example.com":  "must be a URL without user name and password",
		"https://@example.com":     "must be a URL without user name and password",
		"https://:443":             "must be a URL with a host, such as https://example.com/apply",
		"https://a.example:99999/": `has the port "99999": it must be a number from 1 to 65535`,
		"https://a.example:0":      `has the port "0": it must be a number from 1 to 65535`,
		"https://a.example:":       `has the port "": it must be a number from 1 to 65535`,
		"https://a.example:+80":    `has the port "+80": it must be a number from 1 to 65535`,
		"https://a.example:port/":  `has the port "port": it must be a number from 1 to 65535`,
		"https://2001:db8::1/":     `has the host "2001:db8:"` + notName,
		"https://[fe80::1%25eth0]/": `has the host "[fe80::1%25eth0]": it must be an IPv6 address in brackets, without a ` +
			`zone`,
		"https://[fe80::1%eth0]/": `has the host "[fe80::1%eth0]": it must be an IPv6 address in brackets, without a zone`,
		"https://[127.0.0.1]/":    `has the host "[127.0.0.1]": it must be an IPv6 address in brackets, without a zone`,
		"https://[::1/":           `has the host "[:": it must be an IPv6 address in brackets, without a zone`,
		"https://bücher.example/": `has the host "bücher.example": write it in punycode, xn--bcher-kva.example`,
		"https://a\u202eb.example/": "has the host \"a\\u202eb.example\": it must be a name of ASCII letters, or its " +
			"form in punycode",
		"https://a b.example/":  `has the host "a b.example"` + notName,
		"https://a..example/":   `has the host "a..example"` + notName,
		"https://a%41.example/": `has the host "a%41.example"` + notName,
		"https://" + strings.Repeat("a", 64) + ".example/": `has the host "` + strings.Repeat("a", 40) +
			`…": it must have at most 253 characters, and at most 63 between two points`,
		"https://" + strings.Repeat("a.", 130) + "example/": `has the host "` + strings.Repeat("a.", 20) +
			`…": it must have at most 253 characters, and at most 63 between two points`,
		"https://1.2.3/":                                 `has the host "1.2.3"` + notName,
		"https://127.0.0.256/":                           `has the host "127.0.0.256"` + notName,
		"https://0x7f.1/":                                `has the host "0x7f.1"` + notName,
		"https://a.example\\b/":                          `has the host "a.example\\b"` + notName,
		"https://a.example/?q=100%":                      `has "%" in the query` + notEscape,
		"https://a.example/%zz":                          `has "%zz" in the path` + notEscape,
		"https://a.example/#%2":                          `has "%2" in the fragment` + notEscape,
		"https://a.example/?f[a]=b":                      `has '[' in the query: write %5B`,
		"https://a.example/#a#b":                         `has '#' in the fragment: write %23`,
		"https://a.example/a b":                          `has ' ' in the path: write %20`,
		"https://a.example/\n":                           `has '\n' in the path: write %0A`,
		"https://a.example/ä":                            `has 'ä' in the path: write %C3%A4`,
		"https://a.example/<a>":                          `has '<' in the path: write %3C`,
		"https://a.example/?a=\"":                        `has '"' in the query: write %22`,
		"https://a.example/a\\b":                         `has '\\' in the path: write %5C`,
		"https://a.example/" + strings.Repeat("a", 2031): "must be a URL of at most 2048 characters",
	} {
		require.EqualError(t, api.CheckURL(text), want, text)
	}
}

func FuzzCheckURL(f *testing.F) {
	for _, text := range []string{"https://a.example:8080/a%20b?c=d#e", "https://[::1]/",
		"https://xn--bcher-kva.example", "https://u:p@a", "https://1.2.3.4/?f[a]"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if api.CheckURL(text) != nil {
			return
		}
		u, err := url.Parse(text)
		require.NoError(t, err)
		require.True(t, u.Hostname() != "" && u.User == nil && len(text) <= api.MaxURL)
		require.NoError(t, api.CheckURL(u.String()), "the form of package url")
	})
}

func TestIsLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "127.0.0.1": true, "127.8.9.1": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, "db": false, "localhost.example.com": false, "127.0.0.1.example.com": false, "0.0.0.0": false,
		"::": false, "10.0.0.1": false, "127": false,
	} {
		require.Equal(t, want, api.IsLoopback(host), host)
	}
}
