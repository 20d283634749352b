package e2e

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/stretchr/testify/require"
)

// varying replaces what differs from one response to the next, in this order.
var varying = []struct {
	form *regexp.Regexp
	name string
}{
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "<uuid>"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`), "<time>"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d`), "<date>"},
	{regexp.MustCompile(`W/"[0-9a-f]{32}"`), `W/"<tag>"`},
	{regexp.MustCompile(`[0-9a-f]{64}`), "<hash>"},
	{regexp.MustCompile(`— opportunity-history [A-Za-z0-9+/]+=*`), "— opportunity-history <signature>"},
	{regexp.MustCompile(`(?m)^[A-Za-z0-9+/]{43}=$`), "<hash>"},
	{regexp.MustCompile(`("cursor": ?"|after=)[\w-]{20,}`), "$1<cursor>"},
	{regexp.MustCompile(`(?m)^(X-RateLimit-(?:Remaining|Reset)|Retry-After|Date|Content-Length): .*$`), "$1: <varies>"},
	{regexp.MustCompile(`;([rt])=\d+`), ";$1=<n>"},
	{regexp.MustCompile(`\b(in|after|for) (\d+) (more )?seconds?\b`), "$1 <n> seconds"},
}

func normal(text string) string {
	for _, v := range varying {
		text = v.form.ReplaceAllString(text, v.name)
	}
	return strings.TrimSpace(text)
}

// same compares an example with its live text, apart from what varies. A header is compared by its
// line.
func (e *examples) same(at, example, live string) {
	e.t.Helper()
	if name, found := headerOf(at); found {
		example, live = name+": "+example, name+": "+live
	}
	if normal(example) != normal(live) {
		e.t.Errorf("%s\ndiffers from the live text:\n%s", at, live)
	}
}

func headerOf(at string) (name string, found bool) {
	_, name, found = strings.Cut(at, ", header ")
	return name, found
}

// sameBody is same for JSON, without regard to its layout.
func (e *examples) sameBody(at string, example, live []byte) {
	e.t.Helper()
	require.True(e.t, json.Valid(example), at)
	if normal(generic(e.t, example)) == normal(generic(e.t, live)) {
		return
	}
	var shown bytes.Buffer
	require.NoError(e.t, json.Indent(&shown, live, "", "  "), at)
	e.t.Errorf("%s\ndiffers from the live body:\n%s", at, shown.String())
}
