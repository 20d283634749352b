// Command changelog writes docs/consumers/changelog.md: the parts of CHANGELOG.md that users of the
// API and of the account pages notice. Run it in the root of the repository; make generate does.
package main

import (
	"log"
	"os"
	"regexp"
	"strings"
)

const intro = `# Changelog

What changed for users of the API and of the account pages. Version 1 only grows: see
[versions and deprecation](/docs/versioning).
`

// consumerSections are the sections of a version that the page has.
var consumerSections = map[string]bool{"### API\n": true, "### Accounts\n": true}

// pageLink matches a link to a page that the gateway serves.
var pageLink = regexp.MustCompile(`\]\(docs/consumers/([a-z-]+)\.md`)

func main() {
	source, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		log.Fatal(err)
	}
	page := pageLink.ReplaceAllString(consumerPage(string(source)), "](/docs/$1")
	if err := os.WriteFile("docs/consumers/changelog.md", []byte(page), 0o600); err != nil {
		log.Fatal(err)
	}
}

func consumerPage(changelog string) string {
	var page strings.Builder
	page.WriteString(intro)
	shown := false
	for line := range strings.Lines(changelog) {
		switch {
		case strings.HasPrefix(line, "## "):
			page.WriteString("\n" + line + "\n")
			shown = false
		case strings.HasPrefix(line, "### "):
			shown = consumerSections[line]
		}
		if shown {
			page.WriteString(line)
		}
	}
	return strings.TrimRight(page.String(), "\n") + "\n"
}
