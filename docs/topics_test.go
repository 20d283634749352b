package docs_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryRuleIsStated: each rule that a consumer can meet is stated where they would look for it. The words are what the rule
// cannot be stated without; a page may be rewritten freely around them.
func TestEveryRuleIsStated(t *testing.T) {
	pages := consumerPages(t)
	for _, rule := range []struct {
		name, at string
		words    []string
	}{
		{"limit above the cap", "/docs/filters#pages", []string{"lowered", "in force", "400"}},
		{"order of checks", "/docs/requests#order-of-checks", []string{"404, 405", "401", "403", "429", "400", "402"}},
		{"what is charged", "/docs/limits#what-is-charged-and-given-back", []string{"200, 304, 404", "given back once", "429"}},
		{"limit headers", "/docs/limits#headers", []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset",
			`RateLimit-Policy: "minute";q=10;w=60, "day";q=100;w=86400`, "RateLimit:"}},
		{"honest Retry-After", "/docs/limits#retry-after", []string{"rounded up", "nobody else spends", "longest"}},
		{"shared capacity", "/docs/limits#shared-capacity", []string{"service_capacity_reached", "midnight UTC", "your own"}},
		{"whose allowance", "/docs/limits#whose-allowance", []string{"account", "keys share", "not less than zero"}},
		{"exact minute", "/docs/limits#the-minute", []string{"**any** 60 seconds"}},
		{"day", "/docs/limits#the-day", []string{"midnight UTC", "roll over"}},
		{"402 or 403", "/docs/history#who-may-read", []string{"402", "before the record is looked up", "403"}},
		{"duplicates, empty values, separators", "/docs/requests#query-strings",
			[]string{"case-sensitive", "both values are equal", "empty value", "`;`"}},
		{"booleans", "/docs/filters#three-values-not-two", []string{"exactly `true` or `false`", "unknown matches neither"}},
		{"verified filter", "/docs/filters#verified", []string{"at least one factual review", "never reviewed"}},
		{"country", "/docs/filters#country", []string{"`eligible`", "empty list"}},
		{"province", "/docs/filters#province", []string{"`country=CA`", "exclusion always wins", "`allRegions`", "at least one source"}},
		{"checked_after", "/docs/filters#checked-after", []string{"included", "00:00:00 UTC", "offset", "never reviewed"}},
		{"methods", "/docs/requests#methods", []string{"`HEAD`", "`OPTIONS` answers 204", "405", "body_not_allowed"}},
		{"browsers", "/docs/authentication#where-a-key-belongs", []string{"`Access-Control-*`"}},
		{"paths", "/docs/requests#paths", []string{"trailing slash", "no redirects", "not well formed"}},
		{"key in the query string", "/docs/authentication#where-a-key-belongs", []string{"unknown_parameter", "out of our logs"}},
		{"scheme", "/docs/authentication", []string{"any case"}},
		{"401 header", "/docs/authentication#what-the-answers-mean", []string{"`WWW-Authenticate: Bearer`"}},
		{"media type and request id", "/docs/requests#answers", []string{"`application/json`", "`X-Request-Id`"}},
		{"error body", "/docs/requests#errors", []string{"closed", "documentation", "one status"}},
		{"generatedAt", "/docs/requests#answers", []string{"true at that instant"}},
		{"entity tags", "/docs/caching#entity-tags", []string{"weak", "tier", "order of query parameters"}},
		{"conditional requests", "/docs/caching#conditional-requests", []string{"`If-None-Match`", "304", "charged"}},
		{"who may store", "/docs/caching#who-may-store-an-answer", []string{"`Cache-Control: private, no-cache`", "`Vary: Authorization`"}},
		{"compression", "/docs/caching#compression", []string{"`Accept-Encoding`"}},
		{"next", "/docs/filters#pages", []string{"Absolute URL", "null", "every filter", "200 without records", "you may see"}},
		{"order", "/docs/filters#order", []string{"descending", "never reviewed come last", "by bytes"}},
		{"order of the history", "/docs/history#order-of-events", []string{"Newest `checkedAt` first", "appended last"}},
		{"append-only history", "/docs/history#append-only", []string{"never changed or removed", "A correction is a new event"}},
		{"identifiers", "/docs/data#identifiers", []string{"80 characters", "never given to another", "`slug`", "version 7"}},
		{"free set", "/docs/filters#the-free-set", []string{"the ten", "`publishedAt`, then `id`", "does not rotate", "404"}},
		{"company profile", "/docs/data#company-profile", []string{"a `community` source has none", "Nothing is averaged", "90 days"}},
		{"states", "/docs/data#the-four-states", []string{"`unverified`", "`needs-review`", "`stale`", "`verified`", "at least 24 hours apart",
			"`blocked`", "starting cost", "until a new review succeeds"}},
		{"two kinds of evidence", "/docs/data#kinds-of-evidence", []string{"`review`", "`application-link`", "never renews"}},
		{"link checks", "/docs/link-checker#how-it-behaves", []string{"One check of a link in a day", "`robots.txt`", "One request at a time", "No cookies"}},
		{"outcomes of link checks", "/docs/link-checker#what-is-noted", []string{"401, 403, 429, 451", "404 or 410", "another registrable domain",
			"bare home page", "three tries"}},
		{"which facts", "/docs/data#facts", []string{"latest review with facts", "does not replace reviewed facts"}},
		{"public listings", "/docs/data#public-listings", []string{"name and time", "`unverified`", "404"}},
		{"no promise", "/docs/data#what-the-data-does-not-promise", []string{"vacancy", "income", "safe", "regions"}},
		{"keep evidence", "/docs/data#what-to-keep-with-a-result", []string{"`lastCheckedAt`", "source", "reviewer group"}},
		{"no redistribution", "/docs/data#what-you-may-do-with-it", []string{"redistribut", "agreed separately"}},
		{"plans", "/docs/limits#plans", []string{"29 USD", "`commercial`", "`developer`", "not for sale", "end of the period already paid"}},
		{"sent and charged", "/docs/usage#sent-and-charged", []string{"Requests sent", "Requests charged", "not charged"}},
		{"renewing a key", "/docs/authentication#how-long-a-key-lives", []string{"full life of its own", "rotated key in its last 24 hours does not count"}},
		{"terms of use", "/docs/authentication#getting-a-key", []string{"terms of use", "which version", "accept the new version"}},
		{"usage", "/docs/usage#the-chart", []string{"UTC", "not held against the day", "statistic"}},
		{"usage as a file", "/docs/usage#the-file", []string{"400 days", "RFC 4180", "apostrophe"}},
		{"form of a key", "/docs/authentication#the-form-of-a-key", []string{"`oda_live_`", "43", "checksum", "`oda_test_`", "another form"}},
		{"shown once", "/docs/authentication#getting-a-key", []string{"once", "on request", "last four"}},
		{"life of a key", "/docs/authentication#how-long-a-key-lives", []string{"365 days", "24 hours", "never past its own expiry", "at most 5"}},
		{"in force at once", "/docs/authentication#what-the-answers-mean", []string{"revocation", "suspension", "tier", "next request"}},
		{"deprecation", "/docs/versioning#deprecation", []string{"`/api/v2`", "12 months", "RFC 9745", "RFC 8594"}},
		{"alias", "/docs/versioning#the-alias", []string{`rel="canonical"`, "not deprecated"}},
		{"v1 grows", "/docs/versioning#what-may-change", []string{"only grows", "new fields"}},
		{"outages", "/docs/requests#outages", []string{"`Retry-After: 1`", "never a 401, 403 or 429", "up to 5 minutes", "history is 503"}},
	} {
		t.Run(rule.name, func(t *testing.T) {
			address, anchor, anchored := strings.Cut(rule.at, "#")
			var section string
			if anchored {
				section = pages[address].sections[anchor]
			} else {
				section = strings.Join(slices.Collect(maps.Values(pages[address].sections)), " ")
			}
			require.NotEmpty(t, section, rule.at)
			section = strings.Join(strings.Fields(section), " ") // a phrase may run over the end of a line
			for _, words := range rule.words {
				require.Contains(t, section, words)
			}
		})
	}
}
