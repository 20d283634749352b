// Package docs embeds the consumer documentation that the gateway serves under /docs.
//
// The pages are GitHub-flavored Markdown. Links to headings use the ids that goldmark generates with parser.WithAutoHeadingID;
// the tests resolve every link by that rule. The gateway generates /docs/errors from the table of error codes.
package docs

import "embed"

// Files holds the Markdown of every page.
//
//go:embed consumers/*.md
var Files embed.FS

// Page describes one page.
type Page struct {
	Slug  string // last segment of the path /docs/<slug>; empty for the index at /docs
	Title string // link text; equals the first heading of the page
	File  string // path in Files
}

// Pages lists all pages in reading order, starting with the index.
var Pages = []Page{
	{"", "Opportunity Data API", "consumers/index.md"},
	{"quickstart", "Quickstart", "consumers/quickstart.md"},
	{"data", "What the data means", "consumers/data.md"},
	{"requests", "Requests and responses", "consumers/requests.md"},
	{"filters", "Filters, order and pages", "consumers/filters.md"},
	{"history", "Verification history", "consumers/history.md"},
	{"provable-history", "Provable history", "consumers/provable-history.md"},
	{"authentication", "Authentication", "consumers/authentication.md"},
	{"limits", "Limits", "consumers/limits.md"},
	{"usage", "Reading your usage", "consumers/usage.md"},
	{"caching", "Caching and compression", "consumers/caching.md"},
	{"read-every-page", "Read every page", "consumers/read-every-page.md"},
	{"keep-a-copy", "Keep a copy", "consumers/keep-a-copy.md"},
	{"stay-within-limits", "Stay within your limits", "consumers/stay-within-limits.md"},
	{"handle-errors", "Handle every error", "consumers/handle-errors.md"},
	{"versioning", "Versions and deprecation", "consumers/versioning.md"},
	{"link-checker", "The link checker", "consumers/link-checker.md"},
}
