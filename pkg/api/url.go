package api

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

var errNotAbsolute = errors.New("must be an absolute http or https URL, such as https://example.com/apply")

// ValidURL reports whether CheckURL accepts text.
func ValidURL(text string) bool { return CheckURL(text) == nil }

// CheckURL returns an error unless text is a URL that can be shown to consumers: http or https,
// with a host, without credentials, and valid in RFC 3986 and in the URL Standard of browsers. The
// error names the part that is wrong.
func CheckURL(text string) error {
	if len(text) > MaxURL {
		return fmt.Errorf("must be a URL of at most %d characters", MaxURL)
	}
	rest, fragment, _ := strings.Cut(text, "#")
	rest, query, _ := strings.Cut(rest, "?")
	scheme, rest, ok := strings.Cut(rest, "://")
	if !ok || !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
		return errNotAbsolute
	}
	authority, path, _ := strings.Cut(rest, "/")
	if strings.Contains(authority, "@") { // not quoted: it may be a password
		return errors.New("must be a URL without user name and password")
	}
	if err := checkAuthority(authority); err != nil {
		return err
	}
	for _, part := range []struct{ name, text, allowed string }{
		{"path", path, pathChars}, {"query", query, pathChars + "?"}, {"fragment", fragment, pathChars + "?"},
	} {
		if err := checkChars(part.name, part.text, part.allowed); err != nil {
			return err
		}
	}
	_, err := url.Parse(text)
	return err
}

// pathChars are the characters of a path besides letters, digits and percent-encoded bytes (RFC
// 3986, section 3.3).
const pathChars = "-._~!$&'()*+,;=:@/"

func checkChars(name, text, allowed string) error {
	for i, r := range text {
		switch {
		case r == '%':
			if _, err := url.PathUnescape(text[i:min(i+3, len(text))]); err != nil {
				return fmt.Errorf("has %q in the %s: %% must be followed by two hexadecimal digits; "+
					"write %%25 for the character itself", text[i:min(i+3, len(text))], name)
			}
		case !isAlphanumeric(r) && !strings.ContainsRune(allowed, r):
			return fmt.Errorf("has %q in the %s: write %s", r, name, url.PathEscape(string(r)))
		}
	}
	return nil
}

func isAlphanumeric(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

// Bounds of a name in characters (RFC 1035, section 2.3.4).
const (
	maxLabel = 63
	maxHost  = 253
)

var hostName = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?$`)

func checkAuthority(authority string) error {
	host, port := authority, ""
	if i := strings.LastIndexByte(authority, ':'); i > strings.LastIndexByte(authority, ']') {
		host, port = authority[:i], authority[i+1:]
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("has the port %q: it must be a number from 1 to 65535", port)
		}
	}
	if inside, is := strings.CutPrefix(host, "["); is {
		inside, closed := strings.CutSuffix(inside, "]")
		if address, err := netip.ParseAddr(inside); err != nil || !closed || !address.Is6() || address.Zone() != "" {
			return fmt.Errorf("has the host %q: it must be an IPv6 address in brackets, without a zone", host)
		}
		return nil
	}
	if host == "" {
		return errors.New("must be a URL with a host, such as https://example.com/apply")
	}
	for _, r := range host {
		if r >= 0x80 {
			if ascii, err := idna.Lookup.ToASCII(host); err == nil {
				return fmt.Errorf("has the host %q: write it in punycode, %s", host, ascii)
			}
			return fmt.Errorf("has the host %q: it must be a name of ASCII letters, or its form in punycode", host)
		}
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return nil
	}
	if strings.Contains(strings.ToLower(host), "xn--") {
		if _, err := idna.Lookup.ToUnicode(host); err != nil {
			return fmt.Errorf("has the host %q: it is no valid punycode", host)
		}
	}
	last := host[strings.LastIndexByte(strings.TrimSuffix(host, "."), '.')+1:]
	if slices.ContainsFunc(strings.Split(host, "."), func(label string) bool { return len(label) > maxLabel }) ||
		len(host) > maxHost {
		return fmt.Errorf("has the host %q: it must have at most %d characters, and at most %d between two points",
			short(host), maxHost, maxLabel)
	}
	// a browser would read the name as an IPv4 address
	if !hostName.MatchString(host) || last[0] >= '0' && last[0] <= '9' {
		return fmt.Errorf("has the host %q: it must be a name of letters, digits and hyphens, or an IP address", host)
	}
	return nil
}

// IsLoopback reports whether host, a name or an IP address without a port, is this machine.
func IsLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
