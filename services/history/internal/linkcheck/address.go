package linkcheck

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// reservedNames can never exist on the internet (RFC 2606, 6761, 7686, 8375, 9476, and names
// reserved by ICANN). Listings that use them are samples and tests: the checker neither resolves
// nor records them.
var reservedNames = []string{
	"example", "example.com", "example.net", "example.org", "test", "invalid", "localhost", "local", "internal",
	"home.arpa",
	"onion", "alt",
}

func reserved(host string) bool { return under(host, reservedNames) }

// under reports whether host is one of names, or a subdomain of one.
func under(host string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return host == name || strings.HasSuffix(host, "."+name)
	})
}

// hostOf returns the hostname of an address, or "" if it is not valid.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return hostname(u)
}

// hostname returns the host of u in ASCII and lower case, without a trailing dot. It identifies
// hosts and sites.
func hostname(u *url.URL) string {
	name := u.Hostname()
	if ascii, err := idna.Lookup.ToASCII(name); err == nil {
		name = ascii
	}
	return strings.TrimSuffix(strings.ToLower(name), ".")
}

// port returns the port of u, or 0 if it is not valid.
func port(u *url.URL) uint16 {
	switch {
	case u.Port() != "":
		n, err := strconv.ParseUint(u.Port(), 10, 16)
		if err != nil { // out of range: n is the largest port
			return 0
		}
		return uint16(n)
	case u.Scheme == "https":
		return 443
	}
	return 80
}

// urlProblem returns the reason not to request u, as a verb phrase, or "" if u is allowed. The
// transport checks the resolved address.
func urlProblem(u *url.URL, ports []uint16) string {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "is not an http or https address"
	case u.User != nil:
		return "contains a user name"
	case hostname(u) == "":
		return "has no host"
	case !slices.Contains(ports, port(u)):
		return "uses a port that is not allowed"
	}
	return ""
}

var (
	indexPage = regexp.MustCompile(`^/(?:index|default|home)(?:\.[a-z]{3,5})?/?$`)
	locale    = regexp.MustCompile(`^/[a-z]{2}(?:[-_][a-z]{2})?/?$`)
)

func isHomePage(u *url.URL) bool {
	path := strings.ToLower(u.Path)
	return path == "" || path == "/" || indexPage.MatchString(path) || locale.MatchString(path)
}

// maxNoteURL limits the length of a URL in a note, in bytes.
const maxNoteURL = 200

// noteURL returns u for a note. Notes are public, so it drops the query and fragment, which may
// contain session secrets.
func noteURL(u *url.URL) string {
	bare := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath, Opaque: u.Opaque}
	text := bare.String()
	if len(text) > maxNoteURL {
		text = text[:maxNoteURL] + "..."
	}
	return text
}
