package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apidoc"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/storetest"
)

// TestExamplesAreLive compares every example that consumers read, in the served openapi.yaml and on
// the served pages, with the responses of this service. The figures differ from the defaults: a
// document that ignores the settings fails as well.
func TestExamplesAreLive(t *testing.T) {
	t.Parallel()
	u := up(t, filepath.Join(t.TempDir(), "data"), "OPPORTUNITY_LINK_CHECKS=false", "OPPORTUNITY_SERVICE_CAPACITY=400",
		"OPPORTUNITY_TIERS=free=9/90/10,developer=90/120/50,commercial=300/25/100")
	e := examples{t: t, deployment: u.deployment}
	e.shortLived = e.issue(t, api.Developer, `"expiresIn":"1s"`).Key
	var asked time.Time
	eventually(t, "the changes of the sample are listed", func() bool {
		if time.Since(asked) < time.Second { // the account has few calls
			return false
		}
		asked = time.Now()
		return strings.Contains(string(e.call("", "GET", changesPath+"?limit=3", "").body), "ferry-guides")
	})
	e.description()
	e.keys[api.Developer] = e.issue(t, api.Developer).Key // a minute has not enough calls for all examples
	for _, path := range e.pages() {
		e.page(path)
	}
	e.headerLimit()
	e.filters()
	e.response("TooManyRequests", string(problem.ServiceCapacityReached)) // every later call is rejected
}

// examples compares documented responses with those of a deployment.
type examples struct {
	deployment

	t          *testing.T
	doc        *openapi3.T
	shortLived string // a key that expires at once
}

// sampleRecord is the record of the sample that examples show.
const sampleRecord = "maple-scribe"

// conditions prepare a call for the words behind the request in the summary of an example. Without
// any, the key is a developer key.
var conditions = map[string]func(*examples, *call){
	"with a free key":     func(e *examples, c *call) { c.key = e.keys[api.Free] },
	"without a key":       func(_ *examples, c *call) { c.key = "" },
	"with a body":         func(_ *examples, c *call) { c.body = strings.NewReader("{}") },
	"with an unknown key": func(_ *examples, c *call) { c.key = apikey.Generate("oda_live_").Reveal() },
	"with an entity tag": func(e *examples, c *call) {
		c.header = map[string]string{"If-None-Match": do(e.t, e.url, *c).Header.Get("ETag")}
	},
	"with an expired key": func(e *examples, c *call) {
		c.key = e.shortLived
		eventually(e.t, "the key has expired",
			func() bool { return do(e.t, e.url, *c).code() == string(problem.ExpiredAPIKey) })
	},
	"with a revoked key": func(e *examples, c *call) {
		key := e.issue(e.t, api.Developer)
		e.verb(e.t, "", "keys", "revoke", key.ID)
		c.key = key.Key
	},
	"of a suspended account": func(e *examples, c *call) {
		key := e.issue(e.t, api.Developer)
		e.verb(e.t, "", "accounts", "suspend", key.Account, "--reason", "an example")
		c.key = key.Key
	},
	"after the limit per minute": func(e *examples, c *call) { e.exhaust(c, api.Developer, problem.MinuteLimitReached) },
	"after the limit per day":    func(e *examples, c *call) { e.exhaust(c, api.Commercial, problem.DailyLimitReached) },
	"after the shared capacity": func(e *examples, c *call) {
		e.exhaust(c, api.Developer, problem.ServiceCapacityReached)
	},
}

// inCode are failures that no caller can cause here. Their examples are compared with the messages
// in the code.
var inCode = map[string]*problem.Error{
	"A part of the service is unavailable": problem.Unavailable(nil),
	"An unexpected failure":                problem.Of(errors.New("any")),
}

// exhaust spends with new accounts until a call is rejected with code.
func (e *examples) exhaust(c *call, tier api.Tier, code problem.Code) {
	for range 10 {
		c.key = e.issue(e.t, tier).Key
		for got := ""; got == ""; {
			got = get(e.t, e.url, c.key, listPath+"?country=ZZ").code()
			if got == string(code) {
				return
			}
		}
	}
	require.FailNow(e.t, "limit not reached", "%s", code)
}

func (e *examples) call(at, method, path, condition string) response {
	e.t.Helper()
	c := call{method: method, path: path, key: e.keys[api.Developer]}
	if condition != "" {
		prepare := conditions[condition]
		require.NotNil(e.t, prepare, "%s: unknown condition %q", at, condition)
		prepare(e, &c)
	}
	return do(e.t, e.url, c)
}

var request = regexp.MustCompile(`^([A-Z]+) (/\S*)(?: (.*))?$`)

func (e *examples) description() {
	var err error
	e.doc, err = openapi3.NewLoader().LoadFromData(get(e.t, e.url, "", "/openapi.yaml").body)
	require.NoError(e.t, err)
	for name, response := range e.doc.Components.Responses {
		if len(response.Value.Content) == 0 {
			path, ok := map[string]string{"NotModified": listPath,
				"NotModifiedAlias": "/api/jobs?category=host&page=2&limit=1"}[name]
			require.True(e.t, ok, name)
			e.headers(name, response.Value, e.call(name, "GET", path, "with an entity tag"))
			continue
		}
		for key := range response.Value.Content["application/json"].Examples {
			if key != string(problem.ServiceCapacityReached) { // the last one
				e.response(name, key)
			}
		}
	}
	e.parameters()
}

func (e *examples) response(name, key string) {
	response := e.doc.Components.Responses[name].Value
	at := fmt.Sprintf("openapi.yaml, components.responses.%s, example %s", name, key)
	example := response.Content["application/json"].Examples[key].Value
	shown := storetest.Must(json.Marshal(example.Value))(e.t)
	if failure := inCode[example.Summary]; failure != nil {
		live, err := json.Marshal(api.Error{
			Error:         api.ErrorDetail{Code: string(failure.Code), Message: failure.Message},
			Documentation: e.url + "/docs/errors#" + string(failure.Code),
		})
		require.NoError(e.t, err)
		e.sameBody(at, shown, live)
		return
	}
	words := request.FindStringSubmatch(example.Summary)
	require.NotNil(e.t, words, "%s: the summary must be a request, as GET /api/jobs with a free key: %s", at,
		example.Summary)
	a := e.call(at, words[1], words[2], words[3])
	e.headers(at, response, a)
	e.sameBody(at, shown, a.body)
}

// headers compares the examples of headers. Those with limits are of a developer account.
func (e *examples) headers(at string, response *openapi3.Response, a response) {
	limit := response.Headers["X-RateLimit-Limit"]
	developer := limit != nil && fmt.Sprint(limit.Value.Example) == a.Header.Get("X-RateLimit-Limit")
	for name, header := range response.Headers {
		if developer || name != "X-RateLimit-Limit" && name != "RateLimit-Policy" {
			e.same(at+", header "+name, fmt.Sprint(header.Value.Example), strings.Join(a.Header.Values(name), ", "))
		}
	}
}

// headerLimit sends header sections of the size that /docs/requests states, and of twice that size.
func (e *examples) headerLimit() {
	page := string(get(e.t, e.url, "", "/docs/requests").body)
	stated := regexp.MustCompile(`header section of up to (\d+) KiB is accepted`).FindStringSubmatch(page)
	require.NotNil(e.t, stated)
	most := storetest.Must(strconv.Atoi(stated[1]))(e.t)
	const others = 512 // bytes for the headers that the client adds
	for size, status := range map[int]int{most<<10 - others: http.StatusOK,
		most << 11: http.StatusRequestHeaderFieldsTooLarge} {
		a := do(e.t, e.url, call{path: "/docs", header: map[string]string{"X-Long": strings.Repeat("x", size)}})
		require.Equal(e.t, status, a.StatusCode, "a header of %d bytes", size)
	}
}

func (e *examples) parameters() {
	for _, p := range e.doc.Components.Parameters {
		all := []any{p.Value.Example}
		for _, example := range p.Value.Examples {
			all = append(all, example.Value.Value)
		}
		for _, value := range all {
			path := fmt.Sprintf("/api/v1/search?%s=%v", p.Value.Name, value)
			switch {
			case value == nil:
				continue
			case p.Value.In == "header":
				e.same("openapi.yaml, parameter "+p.Value.Name, fmt.Sprint(value),
					e.call("", "", "/api/jobs", "").Header.Get("ETag"))
				continue
			case p.Value.Name == "after":
				path = fmt.Sprintf(changesPath+"?after=%v", value)
			case p.Value.In == "path":
				path = fmt.Sprintf(listPath+"/%v", value)
			case p.Value.Name == "province":
				path += "&country=CA"
			}
			require.Equal(e.t, http.StatusOK, e.call("", "", path, "").StatusCode, path)
		}
	}
}

var menu = regexp.MustCompile(`<li><a href="(/docs[^"]*)"`)

func (e *examples) pages() []string {
	var all []string
	for _, link := range menu.FindAllSubmatch(get(e.t, e.url, "", "/docs").body, -1) {
		all = append(all, string(link[1]))
	}
	slices.Sort(all)
	all = slices.Compact(all)
	require.Greater(e.t, len(all), 10)
	return all
}

var (
	block  = regexp.MustCompile(`(?s)<pre[^>]*><code(?: class="language-(\w+)")?>(.*?)</code></pre>`)
	colors = regexp.MustCompile(`<span class="[cknms]">([^<]*)</span>`)
	inline = regexp.MustCompile(`<code>(?:GET )?(/[^<\s]*)</code>`)
)

// notServed are addresses that pages name and no service serves.
var notServed = map[string]bool{
	"/api":    true, // all addresses below it
	"/api/v1": true, // all addresses below it
	"/api/v2": true, // a later version
}

// notRun are the beginnings of blocks that this test does not run.
var notRun = []string{
	"export OPPORTUNITY_URL=",                         // the test sets the address and a key itself
	"export GOPROXY=", "npm install ", "pip install ", // the tests of module sdk install SDKs
	"User-Agent: ", // sent by the link checker; its own tests compare it
	"User-agent: ", // robots.txt of another site
}

// page runs the examples of a served page. An `http` block has a request and its response, an `sh`
// block has commands, a `go`, `js` or `python` block is a program with an SDK, and an `output`
// block has the output of the commands or of each program before it, an `sql` block is a query of
// an export. Every address in the text must exist.
func (e *examples) page(path string) {
	page := colors.ReplaceAllString(string(get(e.t, e.url, "", path).body), "$1")
	// its responses are those of the description, which are compared there
	if id, found := strings.CutPrefix(path, "/docs/reference/"); found {
		e.reference(id, html.UnescapeString(page))
		return
	}
	var printed string
	programs := 0
	for _, b := range block.FindAllStringSubmatch(page, -1) {
		example := html.UnescapeString(b[2])
		at := fmt.Sprintf("%s, block\n%s", path, example)
		if slices.ContainsFunc(notRun, func(beginning string) bool { return strings.HasPrefix(example, beginning) }) {
			continue
		}
		switch b[1] {
		case "http":
			e.exchange(at, example)
		case "sh":
			printed = e.shell(example)
		case "go", "js", "python":
			output := e.program(path, b[1])
			require.True(e.t, programs == 0 || output == printed, "%s prints\n%s\nand the program before it\n%s", at, output,
				printed)
			printed = output
			programs++
		case "output":
			if lines, shortened := strings.CutSuffix(example, "...\n"); shortened {
				require.Greater(e.t, len(printed), len(lines), at)
				example, printed = lines, printed[:len(lines)]
			}
			e.same(at, example, printed)
		case "sql":
			require.NotEmpty(e.t, e.query(example), at)
		case "json", "toml": // settings of other programs
			require.True(e.t, b[1] == "toml" || json.Valid([]byte(example)), at)
		default:
			require.FailNow(e.t, "a block must be http, sh, go, js, python, output, sql, json or toml", at)
		}
	}
	if path == "/docs/changelog" { // names addresses of the past, and of other installations
		return
	}
	for _, found := range inline.FindAllStringSubmatch(page, -1) {
		address := strings.NewReplacer("{id}", sampleRecord, "{number}", "1", "{day}",
			time.Now().UTC().Format(time.DateOnly)).
			Replace(html.UnescapeString(found[1]))
		if !notServed[address] {
			a := e.call("", "", address, "")
			require.NotEqual(e.t, http.StatusNotFound, a.StatusCode, "%s names %s", path, address)
		}
	}
}

func (e *examples) query(statement string) string {
	return e.shell("opportunity-data export copy.db >&2; python3 - <<'EOF'\nimport sqlite3\n" +
		"for row in sqlite3.connect('copy.db').execute(" + strconv.Quote(statement) + "): print(row)\nEOF\n")
}

// exchange runs a block with a request and its response. The block may leave out headers and the
// body.
func (e *examples) exchange(at, example string) {
	e.t.Helper()
	asked, shown, found := strings.Cut(example, "\n\n")
	require.True(e.t, found, at)
	lines := strings.Split(asked, "\n")
	method, path, _ := strings.Cut(lines[0], " ")
	c := call{method: method, path: path, header: map[string]string{}}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		c.header[name] = strings.NewReplacer("$OPPORTUNITY_KEY", e.keys[api.Developer], "$FREE_KEY",
			e.keys[api.Free]).Replace(value)
	}
	if strings.HasPrefix(shown, "HTTP/1.1 429 ") {
		e.exhaust(&c, api.Free, problem.MinuteLimitReached)
		delete(c.header, "Authorization")
	}
	a := do(e.t, e.url, c)
	head, body, _ := strings.Cut(strings.TrimSpace(shown), "\n\n")
	live := "HTTP/1.1 " + a.Status
	for line := range strings.Lines(head) {
		if name, _, isHeader := strings.Cut(line, ": "); isHeader {
			live += "\n" + name + ": " + strings.Join(a.Header.Values(name), ", ")
		}
	}
	e.same(at, head, live)
	if body != "" {
		e.sameBody(at, comments.ReplaceAll([]byte(body), nil), a.body)
	}
}

// comments are the lines of an example that explain the next one.
var comments = regexp.MustCompile(`(?m)^ *// .*\n`)

// reference runs the programs on the page of an operation. Other pages of the reference have none.
func (e *examples) reference(id, page string) {
	doc := storetest.Must(apidoc.Published())(e.t)
	if o, found := doc.Operation(id); found {
		for _, p := range e.sameOutput(o.ExampleCall()) {
			require.Contains(e.t, page, p.Code, id)
		}
	}
}

func (e *examples) filters() {
	doc := storetest.Must(apidoc.Published())(e.t)
	list, _ := doc.Operation("listOpportunities")
	e.sameOutput(apidoc.Call{Operation: list, Values: map[string]string{
		"country": "CA", "degree_required": "false", "verified": "true", "checked_after": "2020-01-01", "page": "1",
		"limit": "5",
	}})
	search, _ := doc.Operation("searchOpportunities")
	e.sameOutput(apidoc.Call{Operation: search, Values: map[string]string{"q": "SCRIBE Transcript", "language": "english",
		"pay_unit": "audio-minute", "application_status": "open", "limit": "5"}})
}

// sameOutput runs a call as a program in each language. All SDKs must print the same.
func (e *examples) sameOutput(c apidoc.Call) []apidoc.Program {
	programs := storetest.Must(c.Programs())(e.t)
	require.Len(e.t, programs, 4, "curl and the SDKs")
	require.Contains(e.t, e.shell(programs[0].Code), `"meta":`)
	var printed []string
	for _, p := range programs[1:] {
		printed = append(printed, runProgram(e.t, e.t.TempDir(), p.Language, p.Code, e.url, e.issue(e.t, api.Developer).Key))
	}
	require.NotEmpty(e.t, printed[0], c.Target())
	require.Len(e.t, slices.Compact(printed), 1, c.Target())
	return programs
}

// program runs the sample of a page in one language, with a key of its own, and returns its output.
// Who follows the quickstart has a new free key.
func (e *examples) program(path, language string) string {
	tier := api.Developer
	if path == "/docs/quickstart" {
		tier = api.BaseTier
	}
	return runSample(e.t, e.t.TempDir(), filepath.Base(path), language, e.url, e.issue(e.t, tier).Key)
}

// shell runs a block of commands, which must succeed, and returns what they print.
func (e *examples) shell(commands string) string {
	built := storetest.Must(goSamples())(e.t) // with the command of the SDKs
	path := "PATH=" + built + ":" + filepath.Dir(program(e.t, "opportunity")) + ":" + os.Getenv("PATH")
	return command(e.t, e.t.TempDir(), append(sdkSettings(e.url, e.keys[api.Developer]), path),
		"bash", "-euo", "pipefail", "-c", commands)
}

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
	if _, name, found := strings.Cut(at, ", header "); found {
		example, live = name+": "+example, name+": "+live
	}
	if normal(example) != normal(live) {
		e.t.Errorf("%s\ndiffers from the live text:\n%s", at, live)
	}
}

// sameBody is same for JSON, without regard to its layout.
func (e *examples) sameBody(at string, example, live []byte) {
	e.t.Helper()
	require.True(e.t, json.Valid(example), at)
	if normal(generic(e.t, example)) != normal(generic(e.t, live)) {
		e.t.Errorf("%s\ndiffers from the live body:\n%s", at, live)
	}
}
