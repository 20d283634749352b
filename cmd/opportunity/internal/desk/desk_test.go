package desk_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/cmd/opportunity/internal/desk"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/service/servicetest"
)

const annsToken = "operator-token-of-ann-0123456789abcdef"

// operatorAPI is an operator API with scripted responses. Without one for a request, it responds
// 404.
type operatorAPI struct {
	*httptest.Server

	mu        sync.Mutex
	tokens    map[string]api.Operator
	responses map[string]any // by method and path
	statuses  map[string]int
	before    func(at string) // is called before a response, unless nil
	requests  []string        // method, path and body
}

func newOperatorAPI(t *testing.T) *operatorAPI {
	t.Helper()
	a := &operatorAPI{tokens: map[string]api.Operator{annsToken: {Name: "ann", Role: api.RoleAdmin}},
		responses: map[string]any{}, statuses: map[string]int{}}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

func (a *operatorAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	at := r.Method + " " + strings.TrimPrefix(r.URL.Path, "/operator/v1")
	a.requests = append(a.requests, at+" "+r.URL.RawQuery+" "+string(body))
	if a.before != nil {
		a.before(at)
	}
	me, known := a.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	response, found := a.responses[at]
	status := a.statuses[at]
	switch {
	case !known:
		status, response = http.StatusUnauthorized, api.Error{Error: api.ErrorDetail{Code: "invalid_api_key",
			Message: "This operator token is not valid."}}
	case at == "GET /me":
		response = me
	case !found && strings.HasSuffix(at, "/lease"):
		response = api.Lease{Holder: me.Name}
	case !found && status == 0:
		status, response = http.StatusNotFound, api.Error{Error: api.ErrorDetail{Code: "not_found", Message: "There is no " +
			at + "."}}
	}
	if status != 0 {
		w.WriteHeader(status)
	}
	_ = json.NewEncoder(w).Encode(response)
}

func (a *operatorAPI) respond(at string, response any) { a.respondWith(at, 0, response) }

// setRole changes the role of ann, or removes her token if role is empty.
func (a *operatorAPI) setRole(role api.Role) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if delete(a.tokens, annsToken); role != "" {
		a.tokens[annsToken] = api.Operator{Name: "ann", Role: role}
	}
}

func (a *operatorAPI) respondWith(at string, status int, response any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.responses[at], a.statuses[at] = response, status
}

// sent returns the bodies of the requests to an endpoint.
func (a *operatorAPI) sent(at string) (bodies []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.requests {
		if rest, ok := strings.CutPrefix(r, at+" "); ok {
			_, body, _ := strings.Cut(rest, " ")
			bodies = append(bodies, body)
		}
	}
	return bodies
}

// server is a desk with a settable clock.
type server struct {
	*httptest.Server
	*servicetest.Clock

	t    *testing.T
	api  *operatorAPI
	once string // one-time URL
	log  servicetest.Log
}

func newServer(t *testing.T) *server {
	t.Helper()
	ln := servicetest.Listen(t)
	s := &server{t: t, api: newOperatorAPI(t),
		Clock: servicetest.NewClock(time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC))}
	d, err := desk.New(desk.Options{
		Listener: ln, AdminURL: s.api.URL, Log: slog.New(slog.NewJSONHandler(&s.log, nil)), Now: s.Now, Token: annsToken,
		Actor: "ann", LinksOff: "Link checks are off here.",
	})
	require.NoError(t, err)
	s.once = d.SignInURL()
	s.Server = &httptest.Server{Listener: ln, Config: &http.Server{Handler: d.Handler(), ReadHeaderTimeout: time.Minute}}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// browser keeps cookies and does not follow redirects.
type browser struct {
	*http.Client

	s *server
}

func (s *server) browser() browser {
	jar, err := cookiejar.New(nil)
	require.NoError(s.t, err)
	return browser{&http.Client{Jar: secureJar{jar},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, s}
}

// requireAll fails unless the page has every text.
func (r response) requireAll(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		require.Contains(t, r.body, text)
	}
}

// to returns the page to which a redirect leads.
func (r response) to() string { return r.Header.Get("Location") }

// secureJar treats loopback as secure, as browsers do.
type secureJar struct{ http.CookieJar }

func secure(u *url.URL) *url.URL { return &url.URL{Scheme: "https", Host: u.Host, Path: u.Path} }

func (j secureJar) SetCookies(u *url.URL, cookies []*http.Cookie) {
	j.CookieJar.SetCookies(secure(u), cookies)
}
func (j secureJar) Cookies(u *url.URL) []*http.Cookie { return j.CookieJar.Cookies(secure(u)) }

// response is a response with its body.
type response struct {
	*http.Response

	body string
}

func (b browser) do(r *http.Request) response {
	b.s.t.Helper()
	resp, err := b.Do(r)
	require.NoError(b.s.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(b.s.t, err)
	require.NotContains(b.s.t, string(body)+resp.Header.Get("Location"), annsToken, "the token is on a page")
	require.LessOrEqual(b.s.t, len(body), 100_000, "%s is too large", r.URL)
	return response{resp, string(body)}
}

func (b browser) request(method, path string, form url.Values) *http.Request {
	b.s.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(b.s.t.Context(), method, b.s.URL+path, body)
	require.NoError(b.s.t, err)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	return r
}

func (b browser) get(path string) response { b.s.t.Helper(); return b.do(b.request("GET", path, nil)) }

func (b browser) post(path string, form url.Values) response {
	b.s.t.Helper()
	return b.do(b.request("POST", path, form))
}

// signedIn returns a browser of ann.
func (s *server) signedIn() browser {
	s.t.Helper()
	b := s.browser()
	resp := b.post("/sign-in", url.Values{"token": {annsToken}})
	require.Equal(s.t, http.StatusSeeOther, resp.StatusCode, resp.body)
	return b
}
