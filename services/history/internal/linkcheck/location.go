package linkcheck

import (
	"net/url"
	"regexp"
	"strings"
)

var (
	locationScheme = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*):`)
	slashes        = regexp.MustCompile(`^/{2,}`)
	encodedDot     = regexp.MustCompile(`(?i)%2e`)
)

// resolveLocation returns the URL of the header Location of a response from base, as browsers read
// it (WHATWG URL, special schemes): stray percent signs, spaces, backslashes, missing or surplus
// slashes and bytes that are not ASCII are no errors. The URL has no fragment. It returns nil if
// the host or the port is not valid, or if the location is empty.
func resolveLocation(base *url.URL, location string) *url.URL {
	location = strings.TrimFunc(location, func(r rune) bool { return r <= ' ' })
	location = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(location)
	if location == "" {
		return nil
	}
	location, _, _ = strings.Cut(location, "#")
	if match := locationScheme.FindStringSubmatch(location); match != nil {
		scheme := strings.ToLower(match[1])
		location = location[len(match[0]):]
		switch {
		case scheme != "http" && scheme != "https":
			return &url.URL{Scheme: scheme, Opaque: location}
		case scheme != base.Scheme: // never relative
			base, location = &url.URL{Scheme: scheme}, "//"+location
		}
	}
	path, query, hasQuery := strings.Cut(location, "?")
	path = encodedDot.ReplaceAllString(strings.ReplaceAll(path, `\`, "/"), ".")
	host := ""
	if slashes.MatchString(path) {
		host, path, _ = strings.Cut(slashes.ReplaceAllString(path, ""), "/")
		if host == "" {
			return nil
		}
		host, path = "//"+host, "/"+path
	} else if path != "" && path[0] != '/' {
		path = "./" + path // a colon in it ends no scheme
	}
	text := host + escapeInvalid(path, "\"<>`{}^|")
	if hasQuery {
		text += "?" + escapeInvalid(query, "\"<>'")
	}
	next, err := url.Parse(text)
	if err != nil {
		return nil
	}
	return base.ResolveReference(next)
}

// escapeInvalid percent-encodes controls, spaces, bytes that are not ASCII, the characters in more,
// and percent signs that start no encoded byte.
func escapeInvalid(text, more string) string {
	const digits = "0123456789ABCDEF"
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c <= ' ' || c >= 0x7F || strings.IndexByte(more, c) >= 0 || c == '%' && !encodedByte.MatchString(text[i:]) {
			out.Write([]byte{'%', digits[c>>4], digits[c&15]})
			continue
		}
		out.WriteByte(c)
	}
	return out.String()
}

var encodedByte = regexp.MustCompile(`^%[0-9A-Fa-f]{2}`)
