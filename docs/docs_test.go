package docs_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	"opportunity.internal/docs"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/eventfile"
	"opportunity.internal/pkg/jsonlines"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/pkg/problem"
)

// page holds the parts of a Markdown file that the tests need.
type page struct {
	title    string
	sections map[string]string // heading id -> Markdown of the section, up to the next heading
	links    []string
	code     map[string][]string // language of a fenced block -> the blocks
}

func parse(source []byte) page {
	markdown := goldmark.New(goldmark.WithExtensions(extension.GFM),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	p := page{sections: map[string]string{}, code: map[string][]string{}}
	root := markdown.Parser().Parse(text.NewReader(source))
	section, start := "", 0
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			line := n.Lines().At(0)
			p.sections[section] = string(source[start : 1+bytes.LastIndexByte(source[:line.Start], '\n')])
			id, _ := n.AttributeString("id")
			section, start = string(id.([]byte)), line.Stop
			if n.Level == 1 {
				p.title = string(line.Value(source))
			}
		case *ast.Link:
			p.links = append(p.links, string(n.Destination))
		case *ast.AutoLink: // not a page
			if n.AutoLinkType == ast.AutoLinkEmail {
				return ast.WalkContinue, nil
			}
			p.links = append(p.links, string(n.URL(source)))
		case *ast.FencedCodeBlock:
			language := string(n.Language(source))
			p.code[language] = append(p.code[language], string(n.Lines().Value(source)))
		}
		return ast.WalkContinue, nil
	})
	p.sections[section] = string(source[start:])
	return p
}

// consumerPages returns the embedded pages by path. Tests must not change them.
var consumerPages = sync.OnceValue(func() map[string]page {
	pages := map[string]page{}
	for _, p := range docs.Pages {
		source, err := docs.Files.ReadFile(p.File)
		if err != nil {
			panic(err)
		}
		pages[strings.TrimSuffix("/docs/"+p.Slug, "/")] = parse(source)
	}
	return pages
})

func read(t *testing.T, file string) string {
	t.Helper()
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(source)
}

func TestPagesAreTheFiles(t *testing.T) {
	var listed []string
	pages := consumerPages()
	for _, p := range docs.Pages {
		listed = append(listed, p.File)
		address := strings.TrimSuffix("/docs/"+p.Slug, "/")
		require.Equal(t, p.Title, pages[address].title, p.File)
		require.NotEqual(t, "errors", p.Slug, "the gateway generates /docs/errors")
		require.Contains(t, docs.Groups, p.Group, p.File)
		require.Contains(t, append(pages["/docs"].links, "/docs"), address, "the index does not lead to this page")
	}
	files, err := fs.Glob(docs.Files, "consumers/*")
	require.NoError(t, err)
	require.ElementsMatch(t, files, listed)
	require.Empty(t, docs.Pages[0].Slug, "the first page must be the index")
	require.Len(t, pages, len(docs.Pages), "duplicate slug")
}

func requireSection(t *testing.T, p page, anchor, from, link string) {
	t.Helper()
	_, found := p.sections[anchor]
	require.True(t, anchor == "" || found, "%s links to %s", from, link)
}

// TestLinksOfPages resolves the links of consumer pages, which are absolute paths of the gateway or
// anchors in the page.
func TestLinksOfPages(t *testing.T) {
	pages := maps.Clone(consumerPages())
	codes := page{sections: map[string]string{}}
	for _, e := range problem.Table {
		codes.sections[string(e.Code)] = e.Meaning
	}
	pages["/docs/errors"] = codes
	for _, file := range strings.Fields("/openapi.yaml /openapi.json / /account /account/explorer /account/usage " +
		"/account/plan /docs/reference /llms.txt /terms /privacy /status") {
		pages[file] = page{}
	}
	// the gateway's tests resolve these
	pages["/sdk/"] = page{sections: map[string]string{"go": "", "command": "", "collection": "", "typescript": "",
		"python": ""}}
	for address, p := range pages {
		for _, link := range p.links {
			target, anchor, _ := strings.Cut(link, "#")
			there, found := pages[cmp.Or(target, address)]
			require.True(t, found, "%s links to %s", address, link)
			requireSection(t, there, anchor, address, link)
		}
	}
}

// TestLinksOfFiles resolves the relative links of all other Markdown files.
func TestLinksOfFiles(t *testing.T) {
	files, err := filepath.Glob("../*.md")
	require.NoError(t, err)
	require.NoError(t, filepath.WalkDir(".", func(name string, _ fs.DirEntry, err error) error {
		if path.Ext(name) == ".md" && !strings.HasPrefix(name, "consumers/") {
			files = append(files, name)
		}
		return err
	}))
	for _, file := range files {
		for _, link := range parse([]byte(read(t, file))).links {
			if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
				continue
			}
			target, anchor, _ := strings.Cut(link, "#")
			require.False(t, strings.HasPrefix(target, "/"), "%s links to %s", file, link)
			target = filepath.Join(filepath.Dir(file), cmp.Or(target, filepath.Base(file)))
			_, err := os.Stat(target)
			require.NoError(t, err, "%s links to %s", file, link)
			if path.Ext(target) == ".md" {
				requireSection(t, parse([]byte(read(t, target))), anchor, file, link)
			}
		}
	}
}

// TestFigures compares the figures in pages, and in the description, with the code.
func TestFigures(t *testing.T) {
	pages, described := consumerPages(), openAPI(t)
	var want []string
	for _, tier := range api.Tiers {
		history := map[bool]string{false: "no", true: "yes"}[tier.Limits.History]
		want = append(want, fmt.Sprintf("| %s | %s | %d | %s | %d |", tier.Tier, thousands(tier.Limits.PerDay),
			tier.Limits.PerMinute, history, tier.Limits.PageSize))
	}
	require.Equal(t, want, rows(pages["/docs/limits"].sections["tiers"]))
	require.Equal(t, want, rows(described.Info.Description))

	want = nil
	for _, plan := range api.Plans {
		price := "0"
		if plan.MonthlyUSD > 0 {
			price = fmt.Sprintf("%d USD a month, billed monthly", plan.MonthlyUSD)
		}
		want = append(want, fmt.Sprintf("| %s | %s | `%s` |", plan.Name, price, plan.Tier))
	}
	require.Equal(t, want, rows(pages["/docs/limits"].sections["plans-and-prices"]))

	for _, text := range []string{pages["/docs/limits"].sections["shared-capacity"], described.Info.Description} {
		require.Contains(t, text, thousands(api.ServiceCapacity)+" requests a day")
	}
	require.Contains(t, pages["/docs/data"].sections["the-four-states"], fmt.Sprintf("%d days of 24 hours",
		api.FreshnessDays))
	require.Contains(t, pages["/docs/data"].sections["company-profile"],
		fmt.Sprintf("plus %d days", int(api.ProfileFreshnessWindow.Hours()/24)))
	require.Equal(t, api.FreshnessDays, described.Components.Schemas["Meta"].Properties["freshnessDays"].Const)
	require.Contains(t, described.Components.Schemas["CompanyProfile"].Properties["freshUntil"].Description,
		fmt.Sprintf("%d days after", int(api.ProfileFreshnessWindow.Hours()/24)))
	for _, code := range api.Provinces {
		require.Contains(t, pages["/docs/filters"].sections["province"], "`"+code+"`")
	}
	for kind, outcomes := range api.Outcomes {
		var named []string
		for _, o := range outcomes {
			named = append(named, "`"+string(o)+"`")
		}
		require.Contains(t, pages["/docs/history"].sections["events"], fmt.Sprintf("| `%s` | %s |", kind, strings.Join(named,
			", ")))
	}
	for _, row := range rows(pages["/docs/authentication"].sections["authentication-errors"]) {
		cells := strings.Split(row, "|")
		code := strings.Split(cells[2], "`")[1]
		require.Equal(t, strings.TrimSpace(cells[1]), strconv.Itoa(problem.Code(code).Status()), row)
	}
}

// Every document that says what one may do with the data says it in the same words, which sum up
// the terms of use.
func TestRights(t *testing.T) {
	sources := map[string]string{"openapi.yaml": string(api.OpenAPIYAML)}
	for _, p := range docs.Pages {
		if p.Slug != "changelog" {
			sources[p.File] = read(t, p.File)
		}
	}
	stated := regexp.MustCompile(`(?i)redistribut|own use|your own product|passing? on`)
	for name, source := range sources {
		text := strings.Join(strings.Fields(source), " ")
		text = strings.NewReplacer(api.UsageRight, "", "No redistribution; see the terms of use", "").Replace(text)
		require.NotRegexp(t, stated, text, "%s: use the words of api.UsageRight", name)
	}
}

// rows returns the rows of the first table in a section, without its header.
func rows(section string) []string {
	_, table, _ := strings.Cut(section, "|---|")
	var found []string
	for line := range strings.Lines(table) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "| "):
			found = append(found, line)
		case len(found) > 0:
			return found
		}
	}
	return found
}

func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// TestResponseFieldsAreDocumented finds every field of every response object in the reference.
func TestResponseFieldsAreDocumented(t *testing.T) {
	pages := consumerPages()
	for _, described := range []struct {
		page, section string
		value         any
	}{
		{"/docs/data", "record", api.Opportunity{}},
		{"/docs/data", "facts", api.Facts{
			CountryEligibility: []api.CountryEligibility{{}}, Pay: &api.Pay{}, RiskIndicators: []api.RiskIndicator{{}},
		}},
		{"/docs/data", "verification", api.Verification{ApplicationLink: &api.ApplicationLink{}}},
		{"/docs/data", "company-profile", api.CompanyProfile{Profile: api.Profile{
			Bio: &api.ProfileText{}, FoundedYear: &api.ProfileYear{}, EvidenceAssessment: &api.Assessment{},
			ExperienceSources: []api.ExperienceSource{{Rating: &api.Rating{}}},
		}}},
		{"/docs/history", "events", api.VerificationEvent{}},
		{"/docs/filters", "pages", api.Pagination{}},
		{"/docs/requests", "responses", api.Meta{}},
	} {
		encoded, err := json.Marshal(described.value)
		require.NoError(t, err)
		section := pages[described.page].sections[described.section]
		for _, name := range fieldNames(t, encoded, described.section != "record") {
			require.Contains(t, section, "`"+name+"`", "%s#%s", described.page, described.section)
		}
	}
}

// fieldNames returns the names of all members of a JSON object, with those of the objects in it if
// deep.
func fieldNames(t *testing.T, encoded []byte, deep bool) (names []string) {
	t.Helper()
	var visit func(v any)
	visit = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, value := range v {
				names = append(names, name)
				if deep {
					visit(value)
				}
			}
		case []any:
			for _, value := range v {
				visit(value)
			}
		}
	}
	var value any
	require.NoError(t, json.Unmarshal(encoded, &value))
	visit(value)
	return names
}

// TestExamplesInOperatorPages reads the example lines of the file formats as the services do. That
// of a listing is made from code.
func TestExamplesInOperatorPages(t *testing.T) {
	examples := parse([]byte(read(t, "operators/verbs.md"))).code["json"]
	require.Len(t, examples, 3, "a listing, an event and a key of another form")

	events, err := eventfile.Read(strings.NewReader(examples[1]), time.Now(), 1)
	require.NoError(t, err)
	require.Empty(t, events.Rejected)
	require.Len(t, events.Lines, 1)

	var key api.OlderKey
	require.Empty(t, jsonlines.Decode([]byte(examples[2]), &key))
	require.Regexp(t, "^[0-9a-f]{64}$", key.SHA256)
	require.Len(t, key.LastFour, 4)
}

var update = flag.Bool("update", false, "write the blocks that are made from code into the pages")

// materialFields lists the fields of a listing that reviews cover, as a sentence does.
func materialFields() string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[listingfile.Listing]()) {
		if f.Tag.Get("change") == "material" {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			names = append(names, "`"+name+"`")
		}
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// TestBlocksAreUpToDate compares the blocks of pages that are made from code. make generate writes
// them.
func TestBlocksAreUpToDate(t *testing.T) {
	example := strings.SplitAfterN(string(listingfile.Example), "\n", 2)[1] // without the header
	for _, c := range []struct{ page, start, end, want string }{
		{"operators/curation.md", "```csv\n", "```\n", strings.Join(listingfile.Columns(), ",") + "\n"},
		{"operators/verbs.md", "A line with every field:\n\n```json\n", "```\n", example},
		{"operators/verbs.md", "- Reviews cover ", ".\n", materialFields()},
	} {
		before, rest, found := strings.Cut(read(t, c.page), c.start)
		require.True(t, found, c.page)
		block, after, _ := strings.Cut(rest, c.end)
		if *update {
			require.NoError(t, os.WriteFile(c.page, []byte(before+c.start+c.want+c.end+after), 0o600))
			continue
		}
		require.Equal(t, c.want, block, "%s is out of date: run make generate", c.page)
	}
}

// sampleBlock matches a block of code in the language of an SDK.
var sampleBlock = regexp.MustCompile("(?s)```(go|js|python)\n(.*?)```\n")

// TestSamplesAreUpToDate compares the code of pages with the files below sdk/samples, which the
// end-to-end tests run. make generate writes the blocks.
func TestSamplesAreUpToDate(t *testing.T) {
	used := map[string]bool{}
	for _, p := range mustGlob(t, "consumers/*.md") {
		text := read(t, p)
		dir := filepath.Join("../sdk/samples", strings.TrimSuffix(filepath.Base(p), ".md"))
		want := sampleBlock.ReplaceAllStringFunc(text, func(block string) string {
			language := sampleBlock.FindStringSubmatch(block)[1]
			file := filepath.Join(dir, "main."+map[string]string{"go": "go", "js": "mjs", "python": "py"}[language])
			used[file] = true
			return "```" + language + "\n" + read(t, file) + "```\n"
		})
		if *update {
			require.NoError(t, os.WriteFile(p, []byte(want), 0o600))
			continue
		}
		require.Equal(t, want, text, "%s is out of date: run make generate", p)
	}
	for _, file := range mustGlob(t, "../sdk/samples/*/main.*") {
		require.True(t, used[file], "no page shows %s", file)
	}
}

func mustGlob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}
