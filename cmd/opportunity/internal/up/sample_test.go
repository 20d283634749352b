package up

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/verbs"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/service/servicetest"
)

// running starts `up` in this process and returns its data directory, its address, that of the
// admin listener, and the demo keys.
func running(t *testing.T, seed string) (dir, base, admin string, keys map[api.Tier]string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	ctx, stop := context.WithCancel(t.Context())
	ended, out, errs := make(chan error, 1), new(servicetest.Log), new(servicetest.Log)
	go func() {
		ended <- Run(ctx, Options{
			Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0", DeskListen: "127.0.0.1:0", OperationsListen: "127.0.0.1:0",
			DataDir: dir, Seed: seed,
			Out: out, Err: errs,
		})
	}()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
		for line := range strings.Lines(errs.String()) {
			require.Regexp(t, missedDeadline, line, "a healthy run prints no warnings")
		}
	})
	for !strings.Contains(out.String(), "curl ") {
		select {
		case err := <-ended:
			ended <- err
			require.FailNow(t, "up ended", "%v\n%s", err, errs)
		case <-time.After(5 * time.Millisecond):
		}
	}
	address := func(label string) string {
		_, after, _ := strings.Cut(out.String(), label)
		url, _, _ := strings.Cut(strings.TrimSpace(after), "\n")
		return url
	}
	require.NoError(t, (&dataDir{Path: dir}).Read(keysFile, &keys))
	return dir, address("  API "), address("  Admin listener "), keys
}

// missedDeadline matches the warning of a request or loop that was too slow, and is retried: on a
// busy machine, that says nothing about `up`.
const missedDeadline = `i/o timeout|deadline exceeded`

func get(t *testing.T, url, key string) (status int, body []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, body
}

// verified runs `opportunity history verify` against a running `up`.
func verified(t *testing.T, dir string) {
	t.Helper()
	root, out := &cobra.Command{}, new(bytes.Buffer)
	root.AddCommand(verbs.Commands()...)
	root.SetOut(out)
	root.SetArgs([]string{"history", "verify", "--data-dir", dir})
	require.NoError(t, root.ExecuteContext(t.Context()), out)
	require.Contains(t, out.String(),
		"Verifying "+filepath.Join(dir, "history.db")+" with the key in history-signing-key\n")
	require.Contains(t, out.String(), "everything matches\n")
}

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
	dir, base, _, keys := running(t, "sample")
	verified(t, dir)
	var doc struct {
		Components struct{ Schemas contract }
	}
	require.NoError(t, yaml.Unmarshal(api.OpenAPIYAML, &doc))
	schemas := doc.Components.Schemas

	want, seen := map[string]bool{}, map[string]bool{}
	for _, name := range []string{"Opportunity", "VerificationEvent"} {
		schemas.forms(map[string]any{"$ref": "#/components/schemas/" + name}, "", want)
	}
	status, body := get(t, base+"/api/v1/opportunities?limit=100", keys[api.Commercial])
	require.Equal(t, http.StatusOK, status, "%s", body)
	var list api.OpportunityList
	require.NoError(t, json.Unmarshal(body, &list))
	schemas.see(t, "Opportunity", body, seen)
	for _, o := range list.Data {
		_, body := get(t, base+"/api/v1/opportunities/"+o.ID+"/history?limit=100", keys[api.Commercial])
		schemas.see(t, "VerificationEvent", body, seen)
	}
	for form := range want {
		require.True(t, seen[form] != (unseen[form] != ""), "no record shows that %s", form)
	}

	shows := map[string]adminapi.SampleRecord{}
	records, err := adminapi.LoadSample(time.Now())
	require.NoError(t, err)
	for _, r := range records {
		shows[r.ID()] = r
	}
	freshAndOpen, changed := 0, 0
	for _, o := range list.Data {
		require.Equal(t, shows[o.ID].Shows, string(o.Verification.Status), o.ID)
		if o.Verification.Status == api.Verified && o.Facts.ApplicationStatus == api.ApplicationOpen {
			freshAndOpen++
		}
		changed += o.Verification.ChangeCount
		delete(shows, o.ID)
	}
	require.Greater(t, freshAndOpen, 10)
	require.Greater(t, changed, 5, "histories with corrections")
	for id, r := range shows {
		require.True(t, r.Candidate, "%s is not listed", id)
		status, _ := get(t, base+"/api/v1/opportunities/"+id, keys[api.Commercial])
		require.Equal(t, http.StatusNotFound, status)
	}
	provinces := map[string]bool{}
	for _, o := range list.Data {
		for _, c := range o.Facts.CountryEligibility {
			for _, region := range slices.Concat(c.IncludedRegions, c.ExcludedRegions) {
				provinces[region] = true
			}
		}
	}
	for _, p := range api.Provinces {
		require.True(t, provinces["CA-"+p], "no record includes or excludes %s", p)
	}
}

// see adds the forms of the records in a response.
func (c contract) see(t *testing.T, schema string, body []byte, seen map[string]bool) {
	t.Helper()
	var response struct{ Data []any }
	require.NoError(t, json.Unmarshal(body, &response))
	for _, record := range response.Data {
		c.shown(map[string]any{"$ref": "#/components/schemas/" + schema}, "", record, seen)
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

// forms adds every form that a schema allows at and below path.
func (c contract) forms(schema map[string]any, path string, out map[string]bool) {
	of, name, nullable := c.resolved(schema, path)
	if nullable {
		out[path+" is null"] = true
	}
	enum, _ := of["enum"].([]any)
	for _, value := range enum {
		out[fmt.Sprintf("%s is %v", name, value)] = true
	}
	if either, ok := of["anyOf"].([]any); ok {
		for _, one := range either {
			out[fmt.Sprintf("%s is a %v", name, one.(map[string]any)["format"])] = true
		}
	}
	switch kind(of) {
	case "boolean":
		out[path+" is true"], out[path+" is false"] = true, true
	case "array":
		out[path+" is empty"], out[path+" is not empty"] = true, true
		c.forms(of["items"].(map[string]any), path+"[]", out)
	case "object":
		for field, schema := range of["properties"].(map[string]any) {
			c.forms(schema.(map[string]any), name+"."+field, out)
		}
	}
}

// shown adds the forms that a value has.
func (c contract) shown(schema map[string]any, path string, value any, out map[string]bool) {
	of, name, _ := c.resolved(schema, path)
	switch v := value.(type) {
	case nil:
		out[path+" is null"] = true
	case bool:
		out[fmt.Sprintf("%s is %t", path, v)] = true
	case string:
		out[fmt.Sprintf("%s is %s", name, v)] = true
		if _, ok := of["anyOf"]; ok {
			form := "date-time"
			if len(v) == len(time.DateOnly) {
				form = "date"
			}
			out[name+" is a "+form] = true
		}
	case []any:
		if len(v) == 0 {
			out[path+" is empty"] = true
			return
		}
		out[path+" is not empty"] = true
		for _, item := range v {
			c.shown(of["items"].(map[string]any), path+"[]", item, out)
		}
	case map[string]any:
		properties := of["properties"].(map[string]any)
		for field, item := range v {
			c.shown(properties[field].(map[string]any), name+"."+field, item, out)
		}
	}
}
