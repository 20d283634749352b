package linkcheck

import (
	"net/url"
	"regexp"
	"strings"
)

var (
	locationScheme = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*):`)
	slashes        = regexp.MustCompile(`^/{2,}`)
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
	scheme := base.Scheme
	if match := locationScheme.FindStringSubmatch(location); match != nil {
		scheme = strings.ToLower(match[1])
		location = location[len(match[0]):]
		switch {
		case scheme != "http" && scheme != "https":
			return &url.URL{Scheme: scheme, Opaque: location}
		case scheme != base.Scheme: // never relative
			location = "//" + location
		}
	}
	path, query, hasQuery := strings.Cut(location, "?")
	path = strings.ReplaceAll(path, `\`, "/")
	next := url.URL{Scheme: scheme}
	if slashes.MatchString(path) {
		authority, rest, rooted := strings.Cut(slashes.ReplaceAllString(path, ""), "/")
		host, err := url.Parse("//" + authority)
		if err != nil || host.Host == "" {
			return nil
		}
		next.User, next.Host = host.User, host.Host
		path = ""
		if rooted {
			path = "/" + rest
		}
	} else {
		next.Host = base.Host
		switch {
		case path == "":
			path = base.EscapedPath()
			if !hasQuery {
				query, hasQuery = base.RawQuery, base.RawQuery != "" || base.ForceQuery
			}
		case path[0] != '/':
			directory := base.EscapedPath()
			path = directory[:strings.LastIndexByte(directory, '/')+1] + path
		}
	}
	escaped := escapeInvalid(withoutDots(path), "\"<>`{}^|")
	unescaped, err := url.PathUnescape(escaped)
	if err != nil {
		return nil
	}
	next.Path, next.RawPath = unescaped, escaped
	next.RawQuery, next.ForceQuery = escapeInvalid(query, "\"<>'"), hasQuery
	return &next
}

func withoutDots(path string) string {
	if path == "" {
		return "/"
	}
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	var kept []string
	for i, segment := range segments {
		last := i == len(segments)-1
		switch strings.ReplaceAll(strings.ToLower(segment), "%2e", ".") {
		case ".":
		case "..":
			kept = kept[:max(0, len(kept)-1)]
		default:
			kept = append(kept, segment)
			continue
		}
		if last { // it names a folder
			kept = append(kept, "")
		}
	}
	return "/" + strings.Join(kept, "/")
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
