package e2e

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write the live body of every wrong example into openapi.yaml")

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
func (e *examples) same(at, example, live string) bool {
	e.t.Helper()
	if name, found := headerOf(at); found {
		example, live = name+": "+example, name+": "+live
	}
	if normal(example) == normal(live) {
		return true
	}
	e.t.Errorf("%s\ndiffers from the live text:\n%s", at, live)
	return false
}

func headerOf(at string) (name string, found bool) {
	_, name, found = strings.Cut(at, ", header ")
	return name, found
}

// sameBody is same for JSON, without regard to its layout.
func (e *examples) sameBody(at string, example, live []byte) bool {
	e.t.Helper()
	require.True(e.t, json.Valid(example), at)
	if normal(generic(e.t, example)) == normal(generic(e.t, live)) {
		return true
	}
	var shown bytes.Buffer
	require.NoError(e.t, json.Indent(&shown, live, "", "  "), at)
	e.t.Errorf("%s\ndiffers from the live body:\n%s", at, shown.String())
	return false
}

const descriptionFile = "../pkg/api/openapi.yaml"

// rewrite puts a live body in the place of an example's value in openapi.yaml.
func rewrite(t *testing.T, response, example, live string) {
	t.Helper()
	source, err := os.ReadFile(descriptionFile)
	require.NoError(t, err)
	var doc yaml.Node
	require.NoError(t, yaml.Unmarshal(source, &doc))
	at := doc.Content[0]
	for _, key := range []string{"components", "responses", response, "content", "application/json", "examples", example,
		"value"} {
		i := 0
		for ; at.Content[i].Value != key; i += 2 {
		}
		if key == "value" {
			at = at.Content[i] // the key itself
			break
		}
		at = at.Content[i+1]
	}
	lines := strings.SplitAfter(string(source), "\n")
	start, indent := at.Line, at.Column-1 // lines are counted from 1, so start is the one behind the key
	end := start
	for end < len(lines) && len(lines[end])-len(strings.TrimLeft(lines[end], " ")) > indent {
		end++
	}
	var value yaml.Node
	require.NoError(t, yaml.Unmarshal([]byte(live), &value))
	unflow(&value)
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	require.NoError(t, encoder.Encode(value.Content[0]))
	var body []string
	for line := range strings.Lines(out.String()) {
		body = append(body, strings.Repeat(" ", indent+2)+line)
	}
	require.NoError(t, os.WriteFile(descriptionFile,
		[]byte(strings.Join(slices.Concat(lines[:start], body, lines[end:]), "")), 0o600))
}

// unflow turns JSON's layout into that of YAML.
func unflow(n *yaml.Node) {
	if len(n.Content) > 0 {
		n.Style = 0
	}
	if n.Style == yaml.DoubleQuotedStyle {
		n.Style = 0
	}
	for _, child := range n.Content {
		unflow(child)
	}
}
