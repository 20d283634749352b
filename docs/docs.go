// Package docs embeds the consumer documentation that the gateway serves under /docs.
//
// The pages are GitHub-flavored Markdown. Links to headings use the ids that goldmark generates
// with parser.WithAutoHeadingID; the tests resolve every link by that rule. The gateway generates
// /docs/errors from the table of error codes.
package docs

import "embed"

// Files holds the Markdown of every page.
//
//go:embed consumers/*.md
var Files embed.FS

// Page describes one page.
type Page struct {
	Slug        string // last segment of the path /docs/<slug>; empty for the index at /docs
	Title       string // link text; equals the first heading of the page
	File        string // path in Files
	Group       string // heading of the menu under which the page appears
	Description string // what search engines and llms.txt show; one sentence of at most 160 characters
}

// Groups of the menu, by what the reader is about to do.
const (
	Start      = "Start"
	Guides     = "Guides"
	Operations = "Operations" // and the schemas of their responses
	Reference  = "Reference"
	Account    = "Your account"
	Help       = "Help"
)

// Groups lists the groups in the order of the menu.
var Groups = []string{Start, Guides, Operations, Reference, Account, Help}

// Pages lists all pages in reading order, starting with the index.
var Pages = []Page{
	{"", "Documentation", "consumers/index.md", Start,
		"What the Opportunity Data API is, and every page of its documentation by what you want to do."},
	{"quickstart", "Quickstart", "consumers/quickstart.md", Start,
		"From an account to a program that reads verified records, with curl, Go, TypeScript or Python."},
	{"data", "What the data means", "consumers/data.md", Start,
		"Every field of a record, the four verification states, and what the data does not promise."},
	{"example-record", "An annotated record", "consumers/example-record.md", Start,
		"A complete record and a page of its history as the API returns them, with what each part tells you."},
	{"requests", "Requests and responses", "consumers/requests.md", Reference,
		"Methods, paths, query strings, the order of checks, errors and outages of the API."},
	{"filters", "Filters, order and pages", "consumers/filters.md", Reference,
		"What each query parameter matches, how lists are sorted, and how pagination works."},
	{"changes", "Changes", "consumers/changes.md", Reference,
		"Which records were published, updated or withdrawn after a cursor, and how to follow them."},
	{"history", "Verification history", "consumers/history.md", Reference,
		"The factual reviews and link checks behind the verification status of a record."},
	{"provable-history", "Provable history", "consumers/provable-history.md", Reference,
		"How the verification history is signed, and how to verify a signature, a proof and an event."},
	{"authentication", "Authentication", "consumers/authentication.md", Account,
		"How to get, store, send, rotate and revoke an API key."},
	{"limits", "Limits", "consumers/limits.md", Account,
		"How many requests each plan may send a day and a minute, its price and cost, and the rate-limit headers."},
	{"usage", "Reading your usage", "consumers/usage.md", Account,
		"What the usage figures on your account pages count, and the format of the CSV file."},
	{"caching", "Caching and compression", "consumers/caching.md", Reference,
		"Entity tags, conditional requests, what may be stored, compression and HEAD."},
	{"read-every-page", "Read every page", "consumers/read-every-page.md", Guides,
		"Iterate over a whole list in Go, TypeScript or Python, with one request for each page."},
	{"keep-a-copy", "Keep a copy", "consumers/keep-a-copy.md", Guides,
		"Keep a local copy in sync with the API while records change and disappear."},
	{"export", "Export to a file or database", "consumers/export.md", Guides,
		"Write what your key can read to SQLite, CSV or JSON with one command or three lines, and keep it up to date."},
	{"agents", "Use it from an agent", "consumers/agents.md", Guides,
		"Give coding assistants and chat programs the records as tools, over the Model Context Protocol (MCP)."},
	{
		"open-to-ontario", "Show what is open to Ontario", "consumers/open-to-ontario.md", Guides,
		"Find the remote platforms that are open to residents of Ontario, keep them fresh and show the evidence, in three " +
			"languages.",
	},
	{"stay-within-limits", "Stay within your limits", "consumers/stay-within-limits.md", Guides,
		"Read the remaining quota, wait for the minute limit, and save requests with a cache."},
	{"handle-errors", "Handle every error", "consumers/handle-errors.md", Guides,
		"What a program does about each error code, and when it retries, with code in three languages."},
	{"show-data-responsibly", "Show data responsibly", "consumers/show-data-responsibly.md", Guides,
		"Show a record as HTML with its status, check date and source beside each fact, in three languages."},
	{"free-to-paid", "Move from free to paid", "consumers/free-to-paid.md", Guides,
		"What a paid plan changes, how to buy it, and what your program must handle when it starts and ends."},
	{"best-practices", "Best practices", "consumers/best-practices.md", Guides,
		"What well-behaved programs do about keys, requests, errors and data, and what to test before going live."},
	{"versioning", "Versions and deprecation", "consumers/versioning.md", Reference,
		"What may change within version 1, what does not, and how a new version is announced."},
	{"changelog", "Changelog", "consumers/changelog.md", Reference,
		"What changed for users of the API and of the account pages in each version."},
	{"faq", "Questions and answers", "consumers/faq.md", Help,
		"Short answers about the data, access, keys, limits and what you may do with records."},
	{"support", "Support", "consumers/support.md", Help,
		"How to contact the operator, what to include, and how to report wrong data or a vulnerability."},
	{"link-checker", "The link checker", "consumers/link-checker.md", Help,
		"What OpportunityLinkCheck requests, how often, and how website owners can exclude it."},
}
