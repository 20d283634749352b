package docsite_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/sdk"
)

// The SDKs are served with their media types, and the page has commands with the address of the installation.
func TestSDKs(t *testing.T) {
	site := newSite(t)
	page := plainly(t, site, "/sdk/")
	require.Equal(t, page, plainly(t, site, "/sdk"))
	require.Contains(t, page, "npm install "+publicURL+"/sdk/"+sdk.Tarball+"\n")
	require.Contains(t, page, "pip install "+publicURL+"/sdk/"+sdk.Wheel+"\n")
	require.Contains(t, page, `GOPROXY=&#34;`+publicURL+`/sdk/go,`)

	archives, err := sdk.Archives()
	require.NoError(t, err)
	for name, want := range archives {
		served := get(t, site, "/sdk/"+name)
		require.Equal(t, want, served.Body.Bytes(), name)
		require.NotEqual(t, "text/html; charset=utf-8", served.Header().Get("Content-Type"), name)
	}
	require.Equal(t, "application/gzip", get(t, site, "/sdk/"+sdk.Tarball).Header().Get("Content-Type"))
	require.False(t, has(site, "/sdk/go/example.com/other/@v/list"), "go asks the next proxy about other modules")
}

// TestCollection checks that each operation of the served description is a request of the collection, with every parameter.
func TestCollection(t *testing.T) {
	site := newSite(t)
	served := get(t, site, "/sdk/opportunity-data.postman_collection.json")
	require.Equal(t, "application/json", served.Header().Get("Content-Type"))
	var collection struct {
		Variable []struct{ Key, Value string }
		Item     []struct {
			Request struct {
				URL struct {
					Raw             string
					Query, Variable []struct{ Key string }
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal(served.Body.Bytes(), &collection))
	require.Equal(t, publicURL, collection.Variable[0].Value)
	require.Empty(t, collection.Variable[1].Value, "the key")
	var description struct {
		Paths map[string]struct {
			Get struct {
				Parameters []struct {
					Ref string `json:"$ref"`
				}
			}
		}
		Components struct {
			Parameters map[string]struct{ Name, In string }
		}
	}
	require.NoError(t, json.Unmarshal(get(t, site, "/openapi.json").Body.Bytes(), &description))
	want, got := map[string][]string{}, map[string][]string{}
	for path, operation := range description.Paths {
		path = "{{url}}" + strings.NewReplacer("{", ":", "}", "").Replace(path)
		for _, p := range operation.Get.Parameters {
			if p := description.Components.Parameters[filepath.Base(p.Ref)]; p.In != "header" {
				want[path] = append(want[path], p.Name)
			}
		}
	}
	for _, item := range collection.Item {
		url := item.Request.URL
		for _, p := range append(url.Variable, url.Query...) {
			got[url.Raw] = append(got[url.Raw], p.Key)
		}
	}
	require.Equal(t, want, got)
}
