package up

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apidoc"
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
	description := storetest.Must(apidoc.Published())(t)
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
		check(description, apidoc.Schema{Ref: "#/components/schemas/" + name}, "", values, seen)
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

// check adds every form that a schema allows at and below path, and whether one of the values there
// has it.
func check(d *apidoc.Description, schema apidoc.Schema, path string, values []any, seen map[string]bool) {
	note := func(form string, is func(v any) bool) { seen[form] = seen[form] || slices.ContainsFunc(values, is) }
	nullable := len(schema.OneOf) > 0
	if nullable {
		schema = schema.OneOf[0] // or null
	}
	name := cmp.Or(schema.Name(), path)
	for _, named := range d.Schemas {
		if named.Name == name {
			schema = named.Value
		}
	}
	if nullable || slices.Contains(schema.Types, "null") {
		note(path+" is null", func(v any) bool { return v == nil })
	}
	for _, value := range schema.Enum {
		note(name+" is "+value, func(v any) bool { return v == value })
	}
	switch {
	case name == "CheckDate":
		date := func(v any) bool { return len(fmt.Sprint(v)) == len(time.DateOnly) }
		note(name+" is a date", date)
		note(name+" is a date-time", func(v any) bool { return v != nil && !date(v) })
	case slices.Contains(schema.Types, "boolean"):
		note(path+" is true", func(v any) bool { return v == true })
		note(path+" is false", func(v any) bool { return v == false })
	case schema.Items != nil:
		var items []any
		size := func(v any) int { list, _ := v.([]any); return len(list) }
		note(path+" is empty", func(v any) bool { return v != nil && size(v) == 0 })
		note(path+" is not empty", func(v any) bool { return size(v) > 0 })
		for _, v := range values {
			list, _ := v.([]any)
			items = append(items, list...)
		}
		check(d, *schema.Items, path+"[]", items, seen)
	}
	for _, field := range schema.Properties {
		var members []any
		for _, v := range values {
			if object, is := v.(map[string]any); is {
				members = append(members, object[field.Name])
			}
		}
		check(d, field.Value, name+"."+field.Name, members, seen)
	}
}
