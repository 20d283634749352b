package linkcheck

import (
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// reservedNames can never be on the internet (RFC 2606, 6761, 7686, 8375, 9476, and names that ICANN keeps free). Listings on
// them are samples and tests: they are not looked up, and nothing is recorded of them.
var reservedNames = []string{
	"example", "example.com", "example.net", "example.org", "test", "invalid", "localhost", "local", "internal", "home.arpa",
	"onion", "alt",
}

// Reserved reports whether the host of an address is a name that can never be on the internet.
func Reserved(address string) bool {
	u, err := url.Parse(address)
	return err == nil && reserved(hostname(u))
}

func reserved(host string) bool {
	return slices.ContainsFunc(reservedNames, func(name string) bool { return host == name || strings.HasSuffix(host, "."+name) })
}

// hostname is the host of u, by which turns are taken and sites are told apart: as it is dialled, in ASCII and lower case, without
// the dot of a full name.
func hostname(u *url.URL) string {
	name := u.Hostname()
	if ascii, err := idna.Lookup.ToASCII(name); err == nil {
		name = ascii
	}
	return strings.TrimSuffix(strings.ToLower(name), ".")
}

// port is the port that u leads to; 0 where it is none.
func port(u *url.URL) uint16 {
	switch {
	case u.Port() != "":
		n, _ := strconv.ParseUint(u.Port(), 10, 16)
		return uint16(n)
	case u.Scheme == "https":
		return 443
	}
	return 80
}

// refusal says why u is not asked, as the end of a sentence; empty where it may be. What its name resolves to is judged when
// it is dialled.
func refusal(u *url.URL, ports []uint16) string {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "is not an http or https address"
	case u.User != nil:
		return "carries a user name"
	case hostname(u) == "":
		return "names no host"
	case !slices.Contains(ports, port(u)):
		return "is on a port other than those of the web"
	}
	return ""
}

// site is the registrable domain of a host, such as maple.ca for jobs.maple.ca; an IP address is a site of its own.
func site(host string) string {
	if _, err := netip.ParseAddr(host); err == nil {
		return host
	}
	domain, err := publicsuffix.EffectiveTLDPlusOne(host)
	if err != nil { // a suffix itself, or a name without a dot
		return host
	}
	return domain
}

var (
	indexPage = regexp.MustCompile(`^/(?:index|default|home)(?:\.[a-z]{3,5})?/?$`)
	locale    = regexp.MustCompile(`^/[a-z]{2}(?:[-_][a-z]{2})?/?$`)
)

// home reports whether u is a bare home page: the root of its host, or that root in a language.
func home(u *url.URL) bool {
	path := strings.ToLower(u.Path)
	return path == "" || path == "/" || indexPage.MatchString(path) || locale.MatchString(path)
}

// maxShown bounds an address in a note, in characters.
const maxShown = 200

// shown is u as a note may have it: notes are public, and what is behind the path may be a secret of the visit.
func shown(u *url.URL) string {
	bare := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath, Opaque: u.Opaque}
	text := bare.String()
	if len(text) > maxShown {
		text = text[:maxShown] + "..."
	}
	return text
}
