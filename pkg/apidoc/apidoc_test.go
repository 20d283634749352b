package apidoc_test

import (
	"go/format"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apidoc"
)

func describe(t testing.TB) *apidoc.Description {
	t.Helper()
	d, err := apidoc.Published()
	require.NoError(t, err)
	return d
}

func operation(t testing.TB, id string) apidoc.Operation {
	t.Helper()
	o, ok := describe(t).Operation(id)
	require.True(t, ok, id)
	return o
}

// programs returns the programs of a call of the operation: curl, Go, TypeScript and Python.
func programs(t testing.TB, o apidoc.Operation, values map[string]string) []apidoc.Program {
	t.Helper()
	all, err := apidoc.Call{Operation: o, Values: values}.Programs()
	require.NoError(t, err)
	return all
}

func TestDescription(t *testing.T) {
	d := describe(t)
	require.Equal(t, "Opportunity", d.Schemas[7].Name, "in the order of the document")
	o := operation(t, "getVerificationHistory")
	require.Equal(t, "/api/v1/opportunities/{id}/history", o.Path)
	require.Equal(t, "id", o.Parameters[0].Name)
	require.True(t, o.Parameters[0].Required)
	require.Equal(t, 80, *o.Parameters[0].Resolved.MaxLength, "the named schema")
	require.Equal(t, 100, *o.Parameters[2].Resolved.Maximum)
	require.Equal(t, "EventList", o.Responses[0].Value.JSON().Name())
	list := operation(t, "listOpportunities")
	require.Equal(t, []string{"true", "false"}, list.Parameters[2].Resolved.Choices())
	require.Contains(t, list.Parameters[7].Resolved.Choices(), "sell")
	require.Nil(t, list.Parameters[0].Resolved.Choices())
	_, ok := d.Operation("deleteEverything")
	require.False(t, ok)
}

func TestUnknownReferences(t *testing.T) {
	for _, part := range []string{"parameters/id", "responses/NotFound"} {
		source := strings.ReplaceAll(string(api.OpenAPIYAML), "'#/components/"+part+"'", "'#/components/other'")
		_, err := apidoc.Parse([]byte(source))
		require.ErrorContains(t, err, "#/components/other", part)
	}
}

func TestExampleCall(t *testing.T) {
	call := operation(t, "getVerificationHistory").ExampleCall()
	require.Equal(t, map[string]string{"id": "maple-scribe", "limit": "3"}, call.Values)
	require.Equal(t, "GET "+call.Target(), call.Operation.Example.Request)
	require.Equal(t, "id=maple-scribe&limit=3", call.Link())
}

// No value can add a path segment, a parameter or a fragment.
func TestTargetEscapesValues(t *testing.T) {
	o := operation(t, "getVerificationHistory")
	rapid.Check(t, func(t *rapid.T) {
		id, limit := rapid.StringN(1, 20, -1).Draw(t, "id"), rapid.StringN(1, 20, -1).Draw(t, "limit")
		u, err := url.ParseRequestURI(apidoc.Call{Operation: o,
			Values: map[string]string{"id": id, "limit": limit, "admin": "1"}}.Target())
		require.NoError(t, err)
		require.Equal(t, 4+2, len(strings.Split(u.EscapedPath(), "/")), u.EscapedPath())
		require.Equal(t, "/api/v1/opportunities/"+id+"/history", u.Path)
		query, err := url.ParseQuery(u.RawQuery)
		require.NoError(t, err)
		require.Equal(t, url.Values{"limit": {limit}}, query)
	})
}

func TestHeaderParameters(t *testing.T) {
	call := apidoc.Call{Operation: operation(t, "getOpportunity"),
		Values: map[string]string{"id": "a", "If-None-Match": `W/"x"`}}
	require.Equal(t, `W/"x"`, call.Header().Get("If-None-Match"))
	require.Equal(t, "/api/v1/opportunities/a", call.Target())
	programs := programs(t, call.Operation, call.Values)
	require.Len(t, programs, 1, "the SDKs take entity tags from their caches")
	require.Contains(t, programs[0].Code, `--header 'If-None-Match: W/"x"'`)
}

func TestPrograms(t *testing.T) {
	list := operation(t, "listOpportunities")
	every := map[string]string{}
	for _, p := range list.Parameters {
		if choices := p.Resolved.Choices(); choices != nil {
			every[p.Name] = choices[0]
		}
	}
	every["checked_after"] = "2026-11-01"
	search := apidoc.Call{Operation: operation(t, "searchOpportunities"),
		Values: map[string]string{"q": `"l'été"`, "pay_unit": "hour"}}
	for name, call := range map[string]apidoc.Call{
		"example": list.ExampleCall(), "all records": {Operation: list},
		"every filter": {Operation: list, Values: every},
		"record":       operation(t, "getOpportunity").ExampleCall(),
		"history":      operation(t, "getVerificationHistory").ExampleCall(),
		"changes":      operation(t, "listChanges").ExampleCall(),
		"all changes":  {Operation: operation(t, "listChanges")},
		"search":       search, "all found": {Operation: search.Operation},
		"one page found": {Operation: search.Operation, Values: map[string]string{"page": "2"}},
		"all events":     {Operation: operation(t, "getVerificationHistory"), Values: map[string]string{"id": "a"}},
	} {
		programs := programs(t, call.Operation, call.Values)
		require.Len(t, programs, 4, name)
		formatted, err := format.Source([]byte(programs[1].Code))
		require.NoError(t, err, "%s\n%s", name, programs[1].Code)
		require.Equal(t, string(formatted), programs[1].Code, name)
	}
	found := programs(t, search.Operation, search.Values)
	require.Contains(t, found[1].Code, `opportunity.SearchFilter{Q: "\"l'été\"", PayUnit: "hour"}`)
	require.Contains(t, found[1].Code, `client.Search(context.Background(), filter)`)
	require.Contains(t, found[2].Code, `client.search({ q: "\"l'été\"", payUnit: 'hour' })`)
	require.Contains(t, found[3].Code, `client.search(q="\"l'été\"", pay_unit="hour")`)
	programs := programs(t, list, every)
	require.Contains(t, programs[1].Code, `opportunity.Filter{Remote: opportunity.True, Verified: opportunity.True, `+
		`DegreeRequired: opportunity.True,`)
	require.Contains(t, programs[1].Code, `CheckedAfter: "2026-11-01"}`)
	require.Contains(t, programs[2].Code, `degreeRequired: true,`)
	require.Contains(t, programs[2].Code, `checkedAfter: '2026-11-01' }`)
	require.Contains(t, programs[3].Code, `degree_required=True,`)
	require.Contains(t, programs[3].Code, `checked_after="2026-11-01")`)
}

// The API rejects these values, and the SDKs have no way to send them.
func TestSDKsSendOnlyValuesOfTheType(t *testing.T) {
	for name, value := range map[string]string{"remote": "maybe", "limit": "101", "page": "0", "category": "steal"} {
		programs := programs(t, operation(t, "listOpportunities"), map[string]string{name: value})
		require.Len(t, programs, 1, name)
		require.Contains(t, programs[0].Code, "--data-urlencode "+name+"="+value)
	}
}

// The shell passes every value to curl unchanged and runs none of it.
func TestShellQuoting(t *testing.T) {
	arguments := func(operationID, parameter, value string) string {
		code := programs(t, operation(t, operationID), map[string]string{parameter: value})[0].Code
		out, err := exec.CommandContext(t.Context(), "sh", "-c",
			strings.Replace(code, "curl ", `printf '%s\n' `, 1)).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	for _, value := range []string{"CA", "$(id)", "`id`", "it's", `a"b\`, "$HOME", "a b", "!x", "*", "é"} {
		require.Contains(t, arguments("listOpportunities", "country", value), "\ncountry="+value+"\n")
		path, err := url.PathUnescape(strings.Split(arguments("getOpportunity", "id", value), "\n")[1])
		require.NoError(t, err)
		require.Equal(t, "/api/v1/opportunities/"+value, path)
	}
}

func TestStringLiterals(t *testing.T) {
	for _, p := range programs(t, operation(t, "listOpportunities"), map[string]string{"country": `x" \' <&`})[1:] {
		require.Contains(t, p.Code, `"x\" \\' <&"`, p.Language)
	}
}
