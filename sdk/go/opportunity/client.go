package opportunity

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strings"
	"time"
)

// Version is the version of this SDK.
const Version = "1.0.0"

// Defaults of a client.
const (
	DefaultTimeout     = 30 * time.Second
	DefaultRetryBudget = 90 * time.Second
)

// Client calls the API with one key. It is safe for concurrent use.
type Client struct {
	base   *url.URL
	key    *string // a pointer, so that printing a client does not print the key
	http   http.Client
	budget time.Duration
	cache  Cache
	agent  string
	retry  func(Retry)

	sleep func(context.Context, time.Duration) error
	now   func() time.Time
}

type config struct {
	url, key string
	http     *http.Client
	timeout  time.Duration
	budget   time.Duration
	cache    Cache
	agent    string
	retry    func(Retry)
}

// Option configures a client.
type Option func(*config)

// WithURL sets the address of the service, such as https://api.example.com or
// https://example.com/opportunities. The default is the environment variable OPPORTUNITY_URL.
func WithURL(address string) Option { return func(c *config) { c.url = address } }

// WithKey sets the API key. The default is the environment variable OPPORTUNITY_KEY.
func WithKey(key string) Option { return func(c *config) { c.key = key } }

// WithHTTPClient sets the client that sends the requests. Redirects are never followed, because the
// API has none.
func WithHTTPClient(h *http.Client) Option { return func(c *config) { c.http = h } }

// WithTimeout bounds each attempt of a call, from connecting to the last byte. The default is
// DefaultTimeout.
func WithTimeout(d time.Duration) Option { return func(c *config) { c.timeout = d } }

// WithRetryBudget bounds the time that one request waits between attempts; 0 turns retries off. The
// default is DefaultRetryBudget.
func WithRetryBudget(d time.Duration) Option { return func(c *config) { c.budget = d } }

// WithCache makes calls conditional: the client sends the entity tags of cached responses. There is
// no cache by default.
func WithCache(cache Cache) Option { return func(c *config) { c.cache = cache } }

// WithUserAgent names your program, such as "prices/1.2", in the User-Agent header. The name and
// version of this SDK follow.
func WithUserAgent(program string) Option { return func(c *config) { c.agent = program } }

// WithRetryHook calls hook before each wait for another attempt, for example to log it. To end a
// wait, end the context of the call.
func WithRetryHook(hook func(Retry)) Option { return func(c *config) { c.retry = hook } }

// Retry describes a failed attempt and the wait before the next one.
type Retry struct {
	Attempt int           // attempts so far, 1 after the first
	Wait    time.Duration // time until the next attempt
	Err     *Error        // why the attempt failed
}

// New returns a client. It returns an error if the address or the key is missing or malformed; the
// error never contains the key.
func New(options ...Option) (*Client, error) {
	c := config{
		url: os.Getenv("OPPORTUNITY_URL"), key: os.Getenv("OPPORTUNITY_KEY"),
		http: http.DefaultClient, timeout: DefaultTimeout, budget: DefaultRetryBudget,
		retry: func(Retry) {},
	}
	for _, set := range options {
		set(&c)
	}
	if runtime.GOOS == "js" {
		return nil, errors.New("opportunity: keys must not be used in a browser; call the API from a server")
	}
	base, err := parseBase(c.url)
	if err != nil {
		return nil, err
	}
	if err := checkKey(c.key); err != nil {
		return nil, err
	}
	if !printable(c.agent) {
		return nil, errors.New("opportunity: invalid user agent: it contains a line break or a character that is not ASCII")
	}
	agent := strings.TrimSpace(c.agent + " opportunity-go/" + Version)
	client := &Client{
		base: base, key: &c.key, http: *c.http, budget: c.budget, cache: c.cache, agent: agent, retry: c.retry,
		sleep: sleep, now: time.Now,
	}
	client.http.Timeout = c.timeout
	client.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client, nil
}

func parseBase(address string) (*url.URL, error) {
	if address == "" {
		return nil, errors.New("opportunity: address missing: set OPPORTUNITY_URL or use WithURL")
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil ||
		strings.ContainsAny(address, "?#") {
		return nil, errors.New("opportunity: invalid address: expected a scheme, a host and, if any, a path, such as " +
			"https://api.example.com")
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	return url.Parse(u.Scheme + "://" + u.Host + path)
}

// checkKey rejects what cannot be sent in a header, such as the newline at the end of a file.
func checkKey(key string) error {
	if key == "" {
		return errors.New("opportunity: key missing: set OPPORTUNITY_KEY or use WithKey")
	}
	if !printable(key) || strings.Contains(key, " ") {
		return errors.New("opportunity: invalid key: it contains a space, a line break or a character that is not ASCII")
	}
	return nil
}

func printable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
