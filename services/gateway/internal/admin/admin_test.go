package admin

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/services/gateway/internal/proxy"
)

// conn records the deadlines that are set.
type conn struct {
	*httptest.ResponseRecorder
	read, write []time.Time
}

func (c *conn) SetReadDeadline(d time.Time) error  { c.read = append(c.read, d); return nil }
func (c *conn) SetWriteDeadline(d time.Time) error { c.write = append(c.write, d); return nil }

// service is a service behind the listener.
type service func(*http.Request) (*http.Response, error)

func (s service) RoundTrip(r *http.Request) (*http.Response, error) { return s(r) }

// responds returns a service that reads the request body, and responds in this way unless that
// fails.
func responds(status int, body string) service {
	return func(r *http.Request) (*http.Response, error) {
		if r.Body != nil {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return nil, err
			}
		}
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)),
			Request: r}, nil
	}
}

// send sends a request of an admin to a service.
func send(t *testing.T, to service, log io.Writer, path string, body io.Reader) *conn {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, Prefix+path, body)
	r.Header.Set("Authorization", "Bearer "+tokenOf(api.RoleAdmin))
	c := &conn{ResponseRecorder: httptest.NewRecorder()}
	newAPI(t, to, log).ServeHTTP(c, r)
	return c
}

func post(t *testing.T, path string, body io.Reader) *conn {
	t.Helper()
	return send(t, responds(http.StatusOK, ""), io.Discard, path, body)
}

const file, other = "listings/import", "listings/publish"

func tokenOf(role api.Role) string { return strings.Repeat(string(role[:1]), 31) + string(role[1]) }

// newAPI returns the handler of a gateway in front of the services, which are all to.
func newAPI(t *testing.T, to service, log io.Writer) http.Handler {
	t.Helper()
	entries := []string{strings.Repeat("s", 40), "old:" + strings.Repeat("c", 32) + ":colon"}
	for _, role := range api.Roles {
		entries = append(entries, "ann."+string(role)+":"+string(role)+":"+tokenOf(role))
	}
	tokens, err := ParseTokens(entries)
	require.NoError(t, err)
	owners := Owners{}
	for _, name := range []string{peer.Catalog, peer.History, peer.Authquota, peer.Billing} {
		owners[name] = proxy.New(name, &url.URL{Scheme: "http", Host: name + ".test"}, "internal", to)
	}
	return Handler(tokens, owners, nil, problem.Writer{Log: slog.New(slog.NewTextHandler(log, nil))})
}

// counted returns the handler with services that count their calls.
func counted(t *testing.T) (h http.Handler, calls *int) {
	t.Helper()
	calls = new(int)
	return newAPI(t, func(r *http.Request) (*http.Response, error) {
		*calls++
		return responds(http.StatusOK, "")(r)
	}, io.Discard), calls
}

func request(h http.Handler, method, path, token string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, http.NoBody)
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// permissions states independently of the table which roles can use the endpoints whose path has a
// prefix. The first match counts.
var permissions = []struct {
	prefix string
	roles  string
}{
	{"GET me", "curator publisher support"},
	{"GET audit", "support"}, {"GET usage", "support"}, {"GET keys", "support"}, {"POST keys", "support"},
	{"GET accounts", "support"}, {"POST accounts", "support"},
	{"POST announcements", ""}, {"POST billing", ""},
	{"POST listings", "publisher"}, {"POST events", "publisher"},
	{"POST reviews/records/{id}/decline-withdrawal", "publisher"},
	{"", "curator publisher"},
}

func TestNoFixedPathIsBesideAnID(t *testing.T) {
	var patterns []string
	for _, e := range routes {
		patterns = append(patterns, e.method+" "+Prefix+e.path)
	}
	servicetest.RequireNoFixedPathBesideAnID(t, patterns)
}

func TestEveryRouteAdmitsItsRolesOnly(t *testing.T) {
	h, calls := counted(t)
	for _, e := range routes {
		i := slices.IndexFunc(permissions, func(p struct{ prefix, roles string }) bool {
			return strings.HasPrefix(e.method+" "+e.path, p.prefix)
		})
		for _, role := range api.Roles {
			path := Prefix + strings.ReplaceAll(e.path, "{id}", "some-id")
			*calls = 0
			got := request(h, e.method, path, tokenOf(role))
			if role == api.RoleAdmin || slices.Contains(strings.Fields(permissions[i].roles), string(role)) {
				require.Equal(t, http.StatusOK, got.Code, "%s %s as %s", e.method, path, role)
				continue
			}
			require.Equal(t, http.StatusForbidden, got.Code, "%s %s as %s", e.method, path, role)
			require.Contains(t, got.Body.String(), `"code":"forbidden"`)
			require.Zero(t, *calls, "a forbidden request must not reach a service")
		}
		require.Equal(t, http.StatusUnauthorized, request(h, e.method, Prefix+strings.ReplaceAll(e.path, "{id}", "x"),
			"wrong").Code)
	}
}

func TestMeNamesTheOperatorAndItsRole(t *testing.T) {
	h, calls := counted(t)
	for token, want := range map[string]api.Operator{
		tokenOf(api.RoleCurator):           {Name: "ann.curator", Role: api.RoleCurator},
		tokenOf(api.RoleSupport):           {Name: "ann.support", Role: api.RoleSupport},
		strings.Repeat("s", 40):            {Name: "operator", Role: api.RoleAdmin},
		strings.Repeat("c", 32) + ":colon": {Name: "old", Role: api.RoleAdmin},
	} {
		got := request(h, http.MethodGet, Prefix+"me", token)
		require.Equal(t, http.StatusOK, got.Code)
		var o api.Operator
		require.NoError(t, json.Unmarshal(got.Body.Bytes(), &o))
		require.Equal(t, want, o)
	}
	require.Zero(t, *calls)
	require.Contains(t, request(h, http.MethodGet, Prefix+"me", "").Body.String(), "missing_api_key")
	require.Equal(t, http.StatusMethodNotAllowed, request(h, http.MethodDelete, Prefix+"me", tokenOf(api.RoleAdmin)).Code)
	for _, path := range []string{Prefix + "me/x", Prefix + "keys/../me", "/operator/v1//me", Prefix + "keys/%2e%2e/me", Prefix + "m%65",
		"/internal/v1/principals"} {
		require.Equal(t, http.StatusNotFound, request(h, http.MethodGet, path, tokenOf(api.RoleAdmin)).Code, path)
	}
}

func TestInvalidTokenEntriesAreRejected(t *testing.T) {
	token := strings.Repeat("t", 32)
	for _, entry := range []string{"ann:curater:" + token, "ann:curator:short", ":curator:" + token, "ann:curator:",
		"an n:curator:" + token} {
		_, err := ParseTokens([]string{token, entry})
		require.ErrorContains(t, err, "entry 2", entry)
		require.NotContains(t, err.Error(), token)
	}
	_, err := ParseTokens([]string{"ann:curater:" + token})
	require.ErrorContains(t, err, "admin, curator, publisher, support")
	_, err = ParseTokens([]string{"ann:curator:" + token, "bob:admin:" + token})
	require.ErrorContains(t, err, "repeats")
}

// An endpoint that is not in the table cannot be reached, whatever its service serves.
func TestTableHasEveryEndpointOfTheServices(t *testing.T) {
	served := regexp.MustCompile(`(?:[.\s]|Method|")(GET|Get|POST|Post|PUT|Put|DELETE|Delete)[",( ` +
		`]+"?/operator/v1/([^"]+)"`)
	parameter := regexp.MustCompile(`:\w+|{\w+}`) // a service may name it differently
	found := 0
	check := func(file string, _ fs.DirEntry, err error) error {
		if err != nil || strings.HasSuffix(filepath.Dir(file), "test") || strings.Contains(file, "/testkit/") ||
			!strings.HasSuffix(file, ".go") ||
			strings.HasSuffix(file, "_test.go") {
			return err
		}
		source, err := os.ReadFile(file)
		for _, m := range served.FindAllStringSubmatch(string(source), -1) {
			method, path := strings.ToUpper(m[1]), parameter.ReplaceAllString(m[2], "{}")
			require.True(t, slices.ContainsFunc(routes, func(e route) bool {
				return e.method == method && parameter.ReplaceAllString(e.path, "{}") == path
			}), "%s serves %s %s: add it to routes", file, method, path)
			found++
		}
		return err
	}
	for _, service := range []string{"catalog", "history", "authquota", "billing"} {
		require.NoError(t, filepath.WalkDir("../../../"+service, check))
	}
	require.Equal(t, len(routes)-1, found, "want every route but GET me in a service")
}

// A stalled or oversized upload is an error of the client, not an outage.
func TestUploadErrors(t *testing.T) {
	for name, c := range map[string]struct {
		path    string
		body    io.Reader
		status  int
		message string
	}{
		"stalled": {file, io.MultiReader(strings.NewReader("half"), iotest.ErrReader(os.ErrDeadlineExceeded)), 400,
			"The file did not arrive in time."},
		"too large": {other, io.LimitReader(zeros{}, api.MaxFile+1), 400,
			"The file is larger than 64 MiB; send it in parts."},
		"cut off": {file, io.MultiReader(strings.NewReader("half"), iotest.ErrReader(errors.New("gone"))), 503,
			"The service is temporarily unavailable. Retry shortly."},
		"large": {file, io.LimitReader(zeros{}, 2*api.MaxFile), 200, ""},
		"whole": {other, strings.NewReader("all"), 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := post(t, c.path, c.body)
			require.Equal(t, c.status, got.Code)
			if c.status == http.StatusOK {
				return
			}
			var e api.Error
			require.NoError(t, json.Unmarshal(got.Body.Bytes(), &e))
			require.Equal(t, c.message, e.Error.Message)
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// The service has its full time after a slow upload: the read deadline moves once the file is read,
// because passing it would end the request.
func TestServiceHasItsTimeAfterAnUpload(t *testing.T) {
	for path, respond := range map[string]time.Duration{file: api.FileTimeout + time.Minute, other: api.OperatorTimeout} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			whole := post(t, path, slow{strings.NewReader("some"), time.Second})
			read := begun.Add(2 * time.Second) // with the end of the body
			require.Equal(t, read.Add(respond), whole.read[len(whole.read)-1])
			require.Equal(t, read.Add(respond), whole.write[len(whole.write)-1])
		})
	}
	export := post(t, other, http.NoBody)
	require.Equal(t, export.write, export.read)
}

// An upload may take any time, but each block has only api.UploadStall.
func TestSlowUploadIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		steady := post(t, file, slow{io.LimitReader(zeros{}, 3*api.UploadBlock), 6 * time.Second}) // 32 KiB at once
		require.Equal(t, 200, steady.Code)
		dripping := post(t, file, slow{iotest.OneByteReader(strings.NewReader("abcd")), 4 * time.Second})
		for _, at := range dripping.read[1:4] {
			require.Equal(t, dripping.read[1], at, "one block, one deadline")
		}
		require.True(t, steady.read[len(steady.read)-2].After(begun.Add(2*api.UploadStall)))
	})
}

// slow waits before each read.
type slow struct {
	io.Reader
	wait time.Duration
}

func (s slow) Read(p []byte) (int, error) {
	time.Sleep(s.wait)
	return s.Reader.Read(p)
}

// A service that rejects the gateway is a fault of the installation: the operator's token is valid,
// and the record may exist.
func TestRejectionOfTheGatewayIsNotOneOfTheOperator(t *testing.T) {
	const tokens = "The gateway cannot call catalog: the token of gateway is rejected: compare catalog:... in " +
		"OPPORTUNITY_PEER_TOKENS of gateway " +
		"with gateway:... in OPPORTUNITY_CALLER_TOKENS of catalog."
	const release = "The gateway cannot call catalog: it does not serve /operator/v1/listings/publish: " +
		"compare its release and its address in the settings of the gateway."
	for name, c := range map[string]struct {
		service service
		status  int
		message string
	}{
		"unknown token": {responds(401,
			`{"error":{"code":"invalid_api_key","message":"Missing or unknown token of a service."}}`), 503, tokens},
		"token of another": {responds(403,
			`{"error":{"code":"forbidden","message":"The service billing may not call /operator/v1/ of catalog."}}`), 503,
			tokens},
		"older release": {responds(404,
			`{"error":{"path":"endpoint","code":"not_found","message":"There is nothing."}}`), 503, release},
		"another server": {responds(404, "<h1>Not found</h1>"), 503, release},
		"record that is gone": {responds(404, `{"error":{"code":"not_found","message":"There is no listing x."}}`), 404,
			"There is no listing x."},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			got := send(t, c.service, &log, other, http.NoBody)
			require.Equal(t, c.status, got.Code)
			var e api.Error
			require.NoError(t, json.Unmarshal(got.Body.Bytes(), &e))
			require.Equal(t, c.message, e.Error.Message)
			require.Equal(t, c.status == http.StatusServiceUnavailable, strings.Contains(log.String(), c.message))
		})
	}
}

// The audit log shows that a name was not verified. A named token has only its name.
func TestSenderAddsANameToASharedToken(t *testing.T) {
	shared, named := strings.Repeat("s", 32), strings.Repeat("n", 32)
	tokens, err := ParseTokens([]string{shared, "ann:" + named})
	require.NoError(t, err)
	for _, c := range []struct{ token, claimed, want string }{
		{shared, "", "operator"}, {shared, "operator", "operator"}, {shared, "ceo@corp", "operator (ceo@corp)"},
		{shared, "operator (ceo@corp)", "operator (ceo@corp)"}, {named, "ceo@corp", "ann"}, {named, "", "ann"},
	} {
		r := httptest.NewRequest(http.MethodGet, Prefix+"me", nil)
		r.Header.Set("Authorization", "Bearer "+c.token)
		r.Header.Set(api.ActorHeader, c.claimed)
		sender, err := tokens.operator(r)
		require.NoError(t, err)
		require.Equal(t, c.want, sender.Name)
	}
}
