package docs_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/problem"
)

// openAPI returns the part of openapi.yaml that pages must cover.
func openAPI(t *testing.T) (d struct {
	Info       struct{ Description string }
	Components struct {
		Parameters map[string]struct {
			Name, In string
			Schema   struct{ Maximum int }
		}
		Responses map[string]struct{ Headers map[string]any }
		Schemas   map[string]struct {
			Properties map[string]struct {
				Description string
				Const       any
			}
		}
	}
}) {
	t.Helper()
	require.NoError(t, yaml.Unmarshal(api.OpenAPIYAML, &d))
	require.NotEmpty(t, d.Components.Parameters)
	require.NotEmpty(t, d.Components.Responses)
	return d
}

func allText() string {
	var all strings.Builder
	for _, p := range consumerPages() {
		for _, section := range p.sections {
			all.WriteString(section)
		}
	}
	return all.String()
}

func TestParametersAreDocumented(t *testing.T) {
	pages := consumerPages()
	filters := pages["/docs/filters"].sections
	table := rows(filters["filters-order-and-pages"])
	names := []string{pages["/docs/changes"].sections["cursors"]}
	for _, row := range append(table, rows(filters["search"])...) {
		names = append(names, strings.Split(row, "|")[1])
	}
	for _, p := range openAPI(t).Components.Parameters {
		if p.In != "query" {
			continue
		}
		require.Contains(t, strings.Join(names, ","), "`"+p.Name+"`",
			"parameter %s is neither in the table of /docs/filters nor on /docs/changes", p.Name)
		if p.Schema.Maximum > 0 {
			require.Contains(t, filters["pages"], fmt.Sprintf("`%s` is an integer from 1 to %d", p.Name, p.Schema.Maximum))
		}
	}
	for _, b := range api.BoolFacts {
		described := bytes.Contains(api.OpenAPIYAML, []byte("\n      name: "+b.Param+"\n"))
		require.True(t, described, "openapi.yaml lacks the parameter %s", b.Param)
		require.Contains(t, table, fmt.Sprintf("| `%s` | `true` or `false` | `facts.%s` |", b.Param, b.Name))
	}
}

func TestResponseHeadersAreDocumented(t *testing.T) {
	all := allText()
	for _, response := range openAPI(t).Components.Responses {
		for header := range response.Headers {
			require.Regexp(t, "`"+header+"[:`]|\n"+header+": ", all, "no page explains the header %s", header)
		}
	}
}

func TestErrorCodesAreDocumented(t *testing.T) {
	all := allText()
	for _, e := range problem.Table {
		require.Contains(t, all, fmt.Sprintf("[`%s`](/docs/errors#%s)", e.Code, e.Code), "no page mentions the code %s",
			e.Code)
	}
	stated := regexp.MustCompile("\\b(\\d{3})[\\s|]+\\[`([a-z_]+)`\\]").FindAllStringSubmatch(all, -1)
	require.NotEmpty(t, stated)
	for _, match := range stated {
		require.Equal(t, match[1], strconv.Itoa(problem.Code(match[2]).Status()), "status of %s", match[2])
	}
}

// TestStatusesAreDocumented compares the tables of checks and of charges with the statuses that the
// API can return.
func TestStatusesAreDocumented(t *testing.T) {
	pages := consumerPages()
	success := []string{strconv.Itoa(http.StatusOK), strconv.Itoa(http.StatusNotModified)}
	rejected, failed := map[string]bool{}, map[string]bool{}
	for _, e := range problem.Table {
		if e.Status < http.StatusInternalServerError {
			rejected[strconv.Itoa(e.Status)] = true
		} else {
			failed[strconv.Itoa(e.Status)] = true
		}
	}
	statuses := func(section string, cell int) []string {
		var found []string
		for _, row := range rows(section) {
			found = append(found, regexp.MustCompile(`\d{3}`).FindAllString(strings.Split(row, "|")[cell], -1)...)
		}
		slices.Sort(found)
		return slices.Compact(found)
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(rejected)),
		statuses(pages["/docs/requests"].sections["order-of-checks"], 3))
	require.ElementsMatch(t, slices.Concat(success, slices.Collect(maps.Keys(rejected)),
		slices.Collect(maps.Keys(failed))),
		statuses(pages["/docs/limits"].sections["what-is-charged"], 1))
}

// TestClosedSetsAreDocumented finds each value of a closed set where pages explain the set.
func TestClosedSetsAreDocumented(t *testing.T) {
	var tiers []string
	for _, info := range api.Tiers {
		tiers = append(tiers, string(info.Tier))
	}
	for at, values := range map[string][]string{
		"/docs/data#the-four-states": {string(api.Verified), string(api.Unverified), string(api.Stale),
			string(api.NeedsReview)},
		"/docs/data#kinds-of-evidence":    {string(api.FactualReview), string(api.LinkCheck)},
		"/docs/requests#responses":        tiers,
		"/docs/authentication#key-format": {apikey.Live, apikey.Test},
		"/docs/link-checker#outcomes":     words(api.Outcomes[api.LinkCheck]),
	} {
		for _, value := range values {
			require.Contains(t, section(t, at), "`"+value+"`", at)
		}
	}
	file := section(t, "/docs/usage#the-file")
	for _, outcome := range api.CallOutcomes { // the page covers error codes by a link to their list
		isCode := slices.ContainsFunc(problem.Table, func(e problem.Entry) bool { return string(e.Code) == string(outcome) })
		require.True(t, isCode || strings.Contains(file, "`"+string(outcome)+"`"), "the CSV file has the outcome %s", outcome)
	}
}

func words[T ~string](values []T) []string {
	var all []string
	for _, v := range values {
		all = append(all, string(v))
	}
	return all
}

// section returns the Markdown below a heading, such as /docs/data#facts.
func section(t *testing.T, at string) string {
	t.Helper()
	address, anchor, _ := strings.Cut(at, "#")
	found := consumerPages()[address].sections[anchor]
	require.NotEmpty(t, found, at)
	return found
}

func TestFormatsAreDocumented(t *testing.T) {
	random := len(apikey.Generate(apikey.Live)) - len(apikey.Live) - len("_") - 6
	require.Contains(t, section(t, "/docs/authentication#key-format"),
		fmt.Sprintf("%d letters and digits, `_`, and a checksum of 6", random))
	require.Contains(t, section(t, "/docs/data#identifiers"), fmt.Sprintf("at most %d\ncharacters", api.MaxSlug))
}

// sources returns the code and templates of the services with these extensions, by file name,
// without tests.
func sources(t *testing.T, extensions ...string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, folder := range []string{"../services", "../pkg", "../cmd"} {
		require.NoError(t, filepath.WalkDir(folder, func(name string, _ fs.DirEntry, err error) error {
			if slices.Contains(extensions, path.Ext(name)) && !strings.HasSuffix(name, "_test.go") {
				found[name] = read(t, name)
			}
			return err
		}))
	}
	require.NotEmpty(t, found)
	return found
}

// TestAnchorsInCodeExist resolves each link to a section of a page in the code and templates of the
// services.
func TestAnchorsInCodeExist(t *testing.T) {
	pages := consumerPages()
	link := regexp.MustCompile(`(/docs/[a-z-]+)#([a-z][a-z_-]+)`)
	found := 0
	for name, source := range sources(t, ".go", ".html", ".txt", ".yaml", ".md") {
		for _, match := range link.FindAllStringSubmatch(source, -1) {
			if match[1] == "/docs/errors" {
				require.True(t, slices.ContainsFunc(problem.Table,
					func(e problem.Entry) bool { return string(e.Code) == match[2] }), "%s links to %s", name, match[0])
				continue
			}
			found++
			require.Contains(t, slices.Collect(maps.Keys(pages[match[1]].sections)), match[2], "%s links to %s", name, match[0])
		}
	}
	require.NotZero(t, found)
}

func operatorPages(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	for _, folder := range []string{"operators", "runbooks", "decisions"} {
		for _, file := range mustGlob(t, folder+"/*.md") {
			pages[file] = read(t, file)
		}
	}
	return pages
}

// commandSettings are read by the opportunity command, so configuration.md does not list them.
var commandSettings = []string{
	"OPPORTUNITY_ADMIN_URL", "OPPORTUNITY_OPERATOR_TOKEN", "OPPORTUNITY_ACTOR", "OPPORTUNITY_DATA_DIR",
	"OPPORTUNITY_LINK_CHECKS", "OPPORTUNITY_DESK_URL",
}

func TestSettingsInOperatorPagesExist(t *testing.T) {
	reference := read(t, "configuration.md")
	setting := regexp.MustCompile(`\bOPPORTUNITY_[A-Z_0-9]+\b`)
	for file, text := range operatorPages(t) {
		for _, name := range setting.FindAllString(text, -1) {
			known := slices.Contains(commandSettings, name) || strings.Contains(reference, "| `"+name+"` |")
			require.True(t, known, "%s names the unknown setting %s", file, name)
		}
	}
}

// TestLogMessagesInRunbooksExist finds each log message that a runbook greps for, or calls a log
// message, in the Go code.
func TestLogMessagesInRunbooksExist(t *testing.T) {
	code := strings.Join(slices.Collect(maps.Values(sources(t, ".go"))), "")
	quoted := regexp.MustCompile("log\\s+message\\s+`([^`]+)`|grep '\"([a-z][a-z ]+)[\"']")
	found := 0
	for file, text := range operatorPages(t) {
		for _, match := range quoted.FindAllStringSubmatch(text, -1) {
			found++
			message := match[1] + match[2]
			require.True(t, strings.Contains(code, message), "%s quotes a log message that does not exist: %s",
				file, message)
		}
	}
	require.NotZero(t, found)
}

// TestNamedTestsExist finds each test and each file that a page for contributors names.
func TestNamedTestsExist(t *testing.T) {
	var code strings.Builder
	for _, folder := range []string{"../services", "../pkg", "../cmd", "../e2e", "../sdk", "../charts", "../docker", "."} {
		require.NoError(t, filepath.WalkDir(folder, func(name string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(name, "_test.go") {
				code.WriteString(read(t, name))
			}
			return err
		}))
	}
	named := regexp.MustCompile("`(Test[A-Z]\\w+)`")
	file := regexp.MustCompile("`((?:services|pkg|cmd|e2e|sdk|docs|scripts)/[^`<>*{} ]+)`")
	for _, page := range mustGlob(t, "contributors/*.md") {
		for _, match := range named.FindAllStringSubmatch(read(t, page), -1) {
			require.True(t, strings.Contains(code.String(), "\nfunc "+match[1]+"("), "%s names the test %s", page, match[1])
		}
		for _, match := range file.FindAllStringSubmatch(read(t, page), -1) {
			_, err := os.Stat("../" + match[1])
			require.NoError(t, err, page)
		}
	}
}
