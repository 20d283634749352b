// Package docs holds the pages for consumers of the API, as the gateway serves them under /docs.
//
// The pages are GitHub-flavoured Markdown. Their links to headings rely on the ids that goldmark gives with
// parser.WithAutoHeadingID; the test of this package resolves every link under that rule. The page of error codes is not
// among them: the gateway makes /docs/errors from the table of codes.
package docs

import "embed"

// Files holds the Markdown of every page.
//
//go:embed consumers/*.md
var Files embed.FS

// Page is one page for consumers.
type Page struct {
	Slug  string // last segment of the address, /docs/<slug>; empty for the index, which is served at /docs
	Title string // the text of links to the page; the page's own first heading says the same
	File  string // name in Files
}

// Pages lists every page in reading order, the index first.
var Pages = []Page{
	{"", "Opportunity Data API", "consumers/index.md"},
	{"data", "What the data means", "consumers/data.md"},
	{"requests", "Requests and responses", "consumers/requests.md"},
	{"filters", "Filters, order and pages", "consumers/filters.md"},
	{"history", "Verification history", "consumers/history.md"},
	{"provable-history", "Provable history", "consumers/provable-history.md"},
	{"authentication", "Authentication", "consumers/authentication.md"},
	{"limits", "Limits", "consumers/limits.md"},
	{"usage", "Reading your usage", "consumers/usage.md"},
	{"caching", "Caching and compression", "consumers/caching.md"},
	{"versioning", "Versions and deprecation", "consumers/versioning.md"},
	{"link-checker", "The link checker", "consumers/link-checker.md"},
}
