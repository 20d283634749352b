package up

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
)

// running starts `up` in this process, in the folder of the test, and returns its address and the
// demo keys.
func running(t *testing.T) (base string, keys map[api.Tier]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	out, errs, stop := start(t)
	t.Cleanup(func() {
		stop()
		for line := range strings.Lines(errs.String()) {
			require.Regexp(t, missedDeadline, line, "a healthy run prints no warnings")
		}
	})
	storetest.Eventually(t, "it runs", func() bool { return strings.Contains(out.String(), "curl ") })
	_, after, _ := strings.Cut(out.String(), "  API ")
	base, _, _ = strings.Cut(strings.TrimSpace(after), "\n")
	require.NoError(t, (&dataDir{Path: adminapi.DefaultDataDir}).Read(keysFile, &keys))
	return base, keys
}

// missedDeadline matches the warning of a request or loop that was too slow, and is retried: on a
// busy machine, that says nothing about `up`.
const missedDeadline = `i/o timeout|deadline exceeded`

// contract holds the schemas of the OpenAPI description.
type contract map[string]map[string]any

// unseen lists forms that the contract allows but no sample record can show, with the reason.
var unseen = map[string]string{
	"Opportunity.publishedAt is null": "every public record was published",
	"Opportunity.sources is empty":    "publishing needs a source",
}

// TestTheSampleShowsEverything compares the sample's responses with the OpenAPI description. The
// sample must contain each value of every enumeration, each null, both values of every boolean, and
// every array both empty and not. A new value in the contract fails the test until a record shows
// it.
func TestTheSampleShowsEverything(t *testing.T) {
	base, keys := running(t)
	verified := succeed(t, "history verify")
	require.Contains(t, verified, "history.db with the key in history-signing-key\n")
	require.Contains(t, verified, "everything matches\n")
	var doc struct {
		Components struct{ Schemas contract }
	}
	require.NoError(t, yaml.Unmarshal(api.OpenAPIYAML, &doc))
	get := func(path string) servicetest.Response {
		return servicetest.Send(t, http.MethodGet, base+"/api/v1/opportunities"+path, nil,
			http.Header{"Authorization": {"Bearer " + keys[api.Commercial]}})
	}
	data := func(path string) []any {
		t.Helper()
		r := get(path + "?limit=100")
		require.Equal(t, http.StatusOK, r.Status, r.Body)
		var response struct{ Data []any }
		require.NoError(t, json.Unmarshal([]byte(r.Body), &response))
		return response.Data
	}
	records := data("")
	text := storetest.Must(json.Marshal(records))(t)
	var list []api.Opportunity
	require.NoError(t, json.Unmarshal(text, &list))
	var events []any
	for _, o := range list {
		events = append(events, data("/"+o.ID+"/history")...)
	}
	seen := map[string]bool{}
	for name, values := range map[string][]any{"Opportunity": records, "VerificationEvent": events} {
		doc.Components.Schemas.check(map[string]any{"$ref": "#/components/schemas/" + name}, "", values, seen)
	}
	for form, shown := range seen {
		require.True(t, shown != (unseen[form] != ""), "no record shows that %s", form)
	}

	shows := map[string]adminapi.SampleRecord{}
	sample := storetest.Must(adminapi.LoadSample(time.Now()))(t)
	for _, r := range sample {
		shows[r.ID()] = r
	}
	freshAndOpen, changed := 0, 0
	provinces := map[string]bool{}
	for _, o := range list {
		require.Equal(t, shows[o.ID].Shows, string(o.Verification.Status), o.ID)
		if o.Verification.Status == api.Verified && o.Facts.ApplicationStatus == api.ApplicationOpen {
			freshAndOpen++
		}
		changed += o.Verification.ChangeCount
		delete(shows, o.ID)
		for _, c := range o.Facts.CountryEligibility {
			for _, region := range slices.Concat(c.IncludedRegions, c.ExcludedRegions) {
				provinces[region] = true
			}
		}
	}
	require.Greater(t, freshAndOpen, 10)
	require.Greater(t, changed, 5, "histories with corrections")
	for id, r := range shows {
		require.True(t, r.Candidate, "%s is not listed", id)
		require.Equal(t, http.StatusNotFound, get("/"+id).Status)
	}
	for _, p := range api.Provinces {
		require.True(t, provinces["CA-"+p], "no record includes or excludes %s", p)
	}
}

// resolved follows references and "or null". It returns the schema, the name for its forms, and
// whether null is allowed.
func (c contract) resolved(schema map[string]any, path string) (of map[string]any, name string, nullable bool) {
	if ref, ok := schema["$ref"].(string); ok {
		name := ref[strings.LastIndex(ref, "/")+1:]
		return c[name], name, false
	}
	if either, ok := schema["oneOf"].([]any); ok {
		of, name, _ = c.resolved(either[0].(map[string]any), path)
		return of, name, true
	}
	types, _ := schema["type"].([]any)
	return schema, path, slices.Contains(types, any("null"))
}

func kind(schema map[string]any) string {
	if types, ok := schema["type"].([]any); ok {
		return fmt.Sprint(types[0])
	}
	return fmt.Sprint(schema["type"])
}

// check adds every form that a schema allows at and below path, and whether one of the values there
// has it.
func (c contract) check(schema map[string]any, path string, values []any, seen map[string]bool) {
	of, name, nullable := c.resolved(schema, path)
	note := func(form string, is func(v any) bool) { seen[form] = seen[form] || slices.ContainsFunc(values, is) }
	equal := func(want any) func(v any) bool { return func(v any) bool { return v == want } }
	if nullable {
		note(path+" is null", func(v any) bool { return v == nil })
	}
	enum, _ := of["enum"].([]any)
	for _, value := range enum {
		note(fmt.Sprintf("%s is %v", name, value), equal(value))
	}
	if _, either := of["anyOf"]; either {
		date := func(v any) bool { return len(fmt.Sprint(v)) == len(time.DateOnly) }
		note(name+" is a date", date)
		note(name+" is a date-time", func(v any) bool { return v != nil && !date(v) })
	}
	switch kind(of) {
	case "boolean":
		note(path+" is true", equal(true))
		note(path+" is false", equal(false))
	case "array":
		var items []any
		size := func(v any) int { list, _ := v.([]any); return len(list) }
		note(path+" is empty", func(v any) bool { return v != nil && size(v) == 0 })
		note(path+" is not empty", func(v any) bool { return size(v) > 0 })
		for _, v := range values {
			list, _ := v.([]any)
			items = append(items, list...)
		}
		c.check(of["items"].(map[string]any), path+"[]", items, seen)
	case "object":
		for field, schema := range of["properties"].(map[string]any) {
			var members []any
			for _, v := range values {
				if object, is := v.(map[string]any); is {
					members = append(members, object[field])
				}
			}
			c.check(schema.(map[string]any), name+"."+field, members, seen)
		}
	}
}
