package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/storetest"
)

// contract is the OpenAPI description.
type contract struct {
	routers.Router // finds the operation of a request

	schemas map[string]*jsonschema.Schema // by their reference
	headers map[string]bool               // the names of all described headers
}

// loadContract compiles each schema once. openapi3filter would compile it for each response, which
// takes half of the processor time of these tests.
var loadContract = sync.OnceValues(func() (contract, error) {
	doc, err := openapi3.NewLoader().LoadFromData(api.OpenAPIYAML)
	if err != nil {
		return contract{}, err
	}
	doc.Servers = nil // any address
	for _, schema := range doc.Components.Schemas {
		if schema.Value.Type.Is("object") { // published schemas allow fields to be added; tests do not
			schema.Value.AdditionalProperties = openapi3.BoolSchema{Has: new(bool)}
		}
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return contract{}, err
	}
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return contract{}, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("openapi.json", root); err != nil {
		return contract{}, err
	}
	c := contract{schemas: map[string]*jsonschema.Schema{}, headers: map[string]bool{}}
	for _, response := range doc.Components.Responses {
		for name := range response.Value.Headers {
			c.headers[name] = true
		}
	}
	for name := range doc.Components.Schemas {
		ref := "#/components/schemas/" + name
		if c.schemas[ref], err = compiler.Compile("openapi.json" + ref); err != nil {
			return contract{}, err
		}
	}
	c.Router, err = gorillamux.NewRouter(doc)
	return c, err
})

// response is an HTTP response that conforms to the contract.
type response struct {
	*http.Response

	body []byte
}

// call is a request of a consumer.
type call struct {
	method string // "" is GET
	path   string // with the query
	key    string
	header map[string]string
	body   io.Reader
}

var client = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // there are none
	Transport:     &http.Transport{MaxIdleConnsPerHost: 400},
}

// Paths of the API, and of a record of the sample.
const (
	listPath    = "/api/v1/opportunities"
	changesPath = "/api/v1/changes"
	recordPath  = listPath + "/maple-scribe"
	historyPath = recordPath + "/history"
)

// read returns the body of the response to a GET, which must be 200 once its limits are decided.
func read[T any](t testing.TB, base, key, path string) T {
	t.Helper()
	return decode[T](t, decided(t, base, key, path))
}

// get sends a GET. The key may be empty.
func get(t testing.TB, base, key, path string) response {
	t.Helper()
	return do(t, base, call{path: path, key: key})
}

// do sends the request and validates the response against the contract.
func do(t testing.TB, base string, c call) response {
	t.Helper()
	a, err := try(t.Context(), base, c)
	require.NoError(t, err, c.path)
	return a
}

// try is like do, but returns an error, for goroutines other than the test's own.
func try(ctx context.Context, base string, c call) (response, error) {
	if c.method == "" {
		c.method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, c.method, base+c.path, c.body)
	if err != nil {
		return response{}, err
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	for name, value := range c.header {
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		return response{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return response{}, err
	}
	a := response{resp, body}
	if strings.HasPrefix(req.URL.Path, "/api") {
		if err := conforms(req, a); err != nil {
			return a, fmt.Errorf("%s %s returned %s, which breaks the contract: %w\n%.2000s", c.method, c.path, resp.Status, err,
				body)
		}
	}
	return a, nil
}

// conforms validates a response against the OpenAPI description, whose schemas are those of the Go
// types, and the rules for all responses.
func conforms(req *http.Request, a response) error {
	for name := range a.Header {
		if strings.HasPrefix(name, "Access-Control-") {
			return fmt.Errorf("has header %s", name)
		}
	}
	if len(a.Header.Values(api.RequestIDHeader)) != 1 {
		return fmt.Errorf("has request ids %q", a.Header.Values(api.RequestIDHeader))
	}
	switch {
	case a.StatusCode == http.StatusNotModified, a.StatusCode == http.StatusNoContent, req.Method == http.MethodHead:
		if len(a.body) > 0 {
			return fmt.Errorf("has a body")
		}
	case a.StatusCode != http.StatusOK:
		if err := isError(a); err != nil {
			return err
		}
	}
	if req.Method != http.MethodGet {
		return nil // only GET is described
	}
	return described(req, a)
}

func described(req *http.Request, a response) error {
	c, err := loadContract()
	if err != nil {
		return err
	}
	route, params, err := c.FindRoute(req)
	if err != nil {
		if a.StatusCode == http.StatusNotFound {
			return nil // undescribed path
		}
		return err
	}
	options := &openapi3filter.Options{
		IncludeResponseStatus: true, MultiError: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc,
		ExcludeResponseBody: true,
	}
	err = openapi3filter.ValidateResponse(req.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route,
			Options: options},
		Status: a.StatusCode, Header: a.Header, Options: options,
	})
	if err != nil {
		return err
	}
	headers := route.Operation.Responses.Status(a.StatusCode).Value.Headers
	for name := range c.headers {
		// Vary of an error says nothing, because errors are not cached.
		if a.Header.Get(name) != "" && headers[name] == nil && (name != "Vary" || a.StatusCode < http.StatusBadRequest) {
			return fmt.Errorf("has header %s, which is not described for the status %d", name, a.StatusCode)
		}
	}
	if a.StatusCode == http.StatusNotModified {
		return nil
	}
	kind := a.Header.Get("Content-Type")
	media := route.Operation.Responses.Status(a.StatusCode).Value.Content.Get(kind)
	if media == nil || c.schemas[media.Schema.Ref] == nil {
		return fmt.Errorf("has content type %q, which has no schema among the components", kind)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(a.body))
	if err != nil {
		return err
	}
	return c.schemas[media.Schema.Ref].Validate(value)
}

// strict decodes a body that must contain exactly one T, without unknown fields.
func strict[T any](body []byte) (out T, err error) {
	in := json.NewDecoder(bytes.NewReader(body))
	in.DisallowUnknownFields()
	if err := in.Decode(&out); err != nil {
		return out, err
	}
	if _, err := in.Token(); err != io.EOF {
		return out, fmt.Errorf("something follows the body")
	}
	return out, nil
}

// isError checks that a response has an error body, a code that fits its status, and the headers
// that the status requires.
func isError(a response) error {
	e, err := strict[api.Error](a.body)
	if err != nil {
		return err
	}
	code := problem.Code(e.Error.Code)
	switch {
	case code.Status() != a.StatusCode:
		return fmt.Errorf("code %s under status %d", code, a.StatusCode)
	case a.Header.Get("Content-Type") != "application/json":
		return fmt.Errorf("content type %q", a.Header.Get("Content-Type"))
	case !strings.HasSuffix(e.Documentation, "/docs/errors#"+e.Error.Code):
		return fmt.Errorf("documentation %q", e.Documentation)
	case a.StatusCode == http.StatusUnauthorized && a.Header.Get("WWW-Authenticate") != "Bearer":
		return fmt.Errorf("no WWW-Authenticate")
	case a.StatusCode == http.StatusMethodNotAllowed && a.Header.Get("Allow") == "":
		return fmt.Errorf("no Allow")
	case (a.StatusCode == http.StatusTooManyRequests || a.StatusCode == http.StatusServiceUnavailable) &&
		!wholeSeconds(a.Header.Get("Retry-After")):
		return fmt.Errorf("Retry-After %q", a.Header.Get("Retry-After"))
	}
	return nil
}

func wholeSeconds(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n > 0
}

// code returns the error code of a response, "" for a success.
func (a response) code() string {
	e, err := strict[api.Error](a.body)
	if err != nil {
		return ""
	}
	return e.Error.Code
}

func (a response) remaining(t testing.TB) int {
	t.Helper()
	return storetest.Must(strconv.Atoi(a.Header.Get("X-RateLimit-Remaining")))(t)
}

// decode returns the body of a successful response.
func decode[T any](t testing.TB, a response) T {
	t.Helper()
	require.Equal(t, http.StatusOK, a.StatusCode, "%.1000s", a.body)
	return storetest.Must(strict[T](a.body))(t)
}

func list(t testing.TB, base, key, path string) []api.Opportunity {
	t.Helper()
	return walk[api.Opportunity](t, base, key, path)
}

// walk returns what all pages of a list have. It follows next, as a consumer does.
func walk[T any](t testing.TB, base, key, path string) (all []T) {
	t.Helper()
	for path != "" {
		page := read[struct {
			Data       []T
			Pagination api.Pagination
			Meta       api.Meta
		}](t, base, key, path)
		all = append(all, page.Data...)
		require.Equal(t, page.Pagination.HasMore, page.Pagination.Next != nil)
		path = ""
		if page.Pagination.Next != nil {
			u := storetest.Must(url.Parse(*page.Pagination.Next))(t)
			path = u.RequestURI()
		}
	}
	return all
}
